#include "engine/models/images/sizes.h"

#include <lockstep/models.h>

namespace lockstep::models {
namespace {

template <ConvnextSize size>
Array convnext_of(const Scope& s, const Array& x) {
  return convnext(s, x, {.size = size});
}

template <std::int64_t third, std::int64_t fourth>
Array densenet_of(const Scope& s, const Array& x) {
  return densenet(s, x, {.blocks = {6, 12, third, fourth}});
}

template <int size>
Array efficientnet_of(const Scope& s, const Array& x) {
  return efficientnet(s, x, {.size = size});
}

template <EfficientnetV2Size size>
Array efficientnet_v2_of(const Scope& s, const Array& x) {
  return efficientnet_v2(s, x, {.size = size});
}

template <bool large>
Array mobilenet_v3_of(const Scope& s, const Array& x) {
  return mobilenet_v3(s, x, {.large = large});
}

template <std::int64_t second, std::int64_t third>
Array resnet_v2_of(const Scope& s, const Array& x) {
  return resnet_v2(s, x, {.blocks = {3, second, third, 3}});
}

template <std::int64_t each>
Array vgg_of(const Scope& s, const Array& x) {
  return vgg(s, x, {.blocks = {2, 2, each, each, each}});
}

constexpr NasnetOptions nasnet_large{.filters = 4032, .blocks = 6, .stem_filters = 96, .skip_reduction = true};

using V2 = EfficientnetV2Size;

constexpr ModelEntry entries[] = {
    {"convnext_base", convnext_of<ConvnextSize::base>},
    {"convnext_large", convnext_of<ConvnextSize::large>},
    {"convnext_small", convnext_of<ConvnextSize::small>},
    {"convnext_tiny", convnext_of<ConvnextSize::tiny>},
    {"convnext_xlarge", convnext_of<ConvnextSize::xlarge>},
    {"densenet121", densenet_of<24, 16>},
    {"densenet169", densenet_of<32, 32>},
    {"densenet201", densenet_of<48, 32>},
    {"efficientnet_b0", efficientnet_of<0>},
    {"efficientnet_b1", efficientnet_of<1>},
    {"efficientnet_b2", efficientnet_of<2>},
    {"efficientnet_b3", efficientnet_of<3>},
    {"efficientnet_b4", efficientnet_of<4>},
    {"efficientnet_b5", efficientnet_of<5>},
    {"efficientnet_b6", efficientnet_of<6>},
    {"efficientnet_b7", efficientnet_of<7>},
    {"efficientnet_v2_b0", efficientnet_v2_of<V2::b0>},
    {"efficientnet_v2_b1", efficientnet_v2_of<V2::b1>},
    {"efficientnet_v2_b2", efficientnet_v2_of<V2::b2>},
    {"efficientnet_v2_b3", efficientnet_v2_of<V2::b3>},
    {"efficientnet_v2_l", efficientnet_v2_of<V2::l>},
    {"efficientnet_v2_m", efficientnet_v2_of<V2::m>},
    {"efficientnet_v2_s", efficientnet_v2_of<V2::s>},
    {"inception_resnet_v2", [](const Scope& s, const Array& x) { return inception_resnet_v2(s, x); }},
    {"inception_v3", [](const Scope& s, const Array& x) { return inception_v3(s, x); }},
    {"mobilenet", [](const Scope& s, const Array& x) { return mobilenet(s, x); }},
    {"mobilenet_v2", [](const Scope& s, const Array& x) { return mobilenet_v2(s, x); }},
    {"mobilenet_v3_large", mobilenet_v3_of<true>},
    {"mobilenet_v3_small", mobilenet_v3_of<false>},
    {"nasnet_large", [](const Scope& s, const Array& x) { return nasnet(s, x, nasnet_large); }},
    {"nasnet_mobile", [](const Scope& s, const Array& x) { return nasnet(s, x); }},
    {"resnet101", [](const Scope& s, const Array& x) { return resnet101(s, x); }},
    {"resnet101_v2", resnet_v2_of<4, 23>},
    {"resnet152", [](const Scope& s, const Array& x) { return resnet152(s, x); }},
    {"resnet152_v2", resnet_v2_of<8, 36>},
    {"resnet50_v2", resnet_v2_of<4, 6>},
    {"vgg16", vgg_of<3>},
    {"vgg19", vgg_of<4>},
    {"xception", [](const Scope& s, const Array& x) { return xception(s, x); }},
};

}  // namespace

std::span<const ModelEntry> image_entries() { return entries; }

}  // namespace lockstep::models
