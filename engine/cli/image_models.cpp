#include <algorithm>
#include <iterator>

#include <lockstep/models.h>

#include "engine/cli/model_entries.h"

namespace lockstep::cli {
namespace {

using models::ConvnextSize;
using models::EfficientnetV2Size;

template <ConvnextSize size>
Made convnext(std::int64_t classes, NamedOptions& o) {
  const models::ConvnextOptions usual;
  return made<models::ConvnextOptions>(models::convnext, {.classes = classes,
                                                          .size = size,
                                                          .drop_path = o.number("drop_path", usual.drop_path),
                                                          .layer_scale = o.number("layer_scale", usual.layer_scale)});
}

template <std::int64_t third, std::int64_t fourth>
Made densenet(std::int64_t classes, NamedOptions& o) {
  return made<models::DensenetOptions>(
      models::densenet, {.classes = classes, .blocks = {6, 12, third, fourth}, .growth = o.integer("growth", 32)});
}

template <int size>
Made efficientnet(std::int64_t classes, NamedOptions& o) {
  return made<models::EfficientnetOptions>(
      models::efficientnet, {.classes = classes, .size = size, .drop_connect = o.number("drop_connect", 0.2)});
}

template <EfficientnetV2Size size>
Made efficientnet_v2(std::int64_t classes, NamedOptions& o) {
  return made<models::EfficientnetV2Options>(models::efficientnet_v2, {.classes = classes,
                                                                       .size = size,
                                                                       .dropout = o.number("dropout", 0.2),
                                                                       .drop_connect = o.number("drop_connect", 0.2)});
}

Made mobilenet(std::int64_t classes, NamedOptions& o) {
  return made<models::MobilenetOptions>(
      models::mobilenet, {.classes = classes, .width = o.number("width", 1), .dropout = o.number("dropout", 0.001)});
}

Made mobilenet_v2(std::int64_t classes, NamedOptions& o) {
  return made<models::MobilenetOptions>(models::mobilenet_v2, {.classes = classes, .width = o.number("width", 1)});
}

template <bool large>
Made mobilenet_v3(std::int64_t classes, NamedOptions& o) {
  return made<models::MobilenetV3Options>(
      models::mobilenet_v3,
      {.classes = classes, .large = large, .width = o.number("width", 1), .dropout = o.number("dropout", 0.2)});
}

template <auto model>
Made resnet(std::int64_t classes, NamedOptions& o) {
  return made<models::ResnetOptions>(model, {.classes = classes, .large_images = o.flag("large_images", false)});
}

template <std::int64_t second, std::int64_t third>
Made resnet_v2(std::int64_t classes, NamedOptions&) {
  return made<models::ResnetV2Options>(models::resnet_v2, {.classes = classes, .blocks = {3, second, third, 3}});
}

template <std::int64_t each>
Made vgg(std::int64_t classes, NamedOptions& o) {
  return made<models::VggOptions>(
      models::vgg, {.classes = classes, .blocks = {2, 2, each, each, each}, .units = o.integer("units", 4096)});
}

constexpr ModelEntry entries[] = {
    {"convnext_base", convnext<ConvnextSize::base>},
    {"convnext_large", convnext<ConvnextSize::large>},
    {"convnext_small", convnext<ConvnextSize::small>},
    {"convnext_tiny", convnext<ConvnextSize::tiny>},
    {"convnext_xlarge", convnext<ConvnextSize::xlarge>},
    {"densenet121", densenet<24, 16>},
    {"densenet169", densenet<32, 32>},
    {"densenet201", densenet<48, 32>},
    {"efficientnet_b0", efficientnet<0>},
    {"efficientnet_b1", efficientnet<1>},
    {"efficientnet_b2", efficientnet<2>},
    {"efficientnet_b3", efficientnet<3>},
    {"efficientnet_b4", efficientnet<4>},
    {"efficientnet_b5", efficientnet<5>},
    {"efficientnet_b6", efficientnet<6>},
    {"efficientnet_b7", efficientnet<7>},
    {"efficientnet_v2_b0", efficientnet_v2<EfficientnetV2Size::b0>},
    {"efficientnet_v2_b1", efficientnet_v2<EfficientnetV2Size::b1>},
    {"efficientnet_v2_b2", efficientnet_v2<EfficientnetV2Size::b2>},
    {"efficientnet_v2_b3", efficientnet_v2<EfficientnetV2Size::b3>},
    {"efficientnet_v2_l", efficientnet_v2<EfficientnetV2Size::l>},
    {"efficientnet_v2_m", efficientnet_v2<EfficientnetV2Size::m>},
    {"efficientnet_v2_s", efficientnet_v2<EfficientnetV2Size::s>},
    {"inception_resnet_v2",
     [](std::int64_t classes, NamedOptions&) {
       return made<models::InceptionResnetV2Options>(models::inception_resnet_v2, {.classes = classes});
     }},
    {"inception_v3",
     [](std::int64_t classes, NamedOptions&) {
       return made<models::InceptionV3Options>(models::inception_v3, {.classes = classes});
     }},
    {"mobilenet", mobilenet},
    {"mobilenet_v2", mobilenet_v2},
    {"mobilenet_v3_large", mobilenet_v3<true>},
    {"mobilenet_v3_small", mobilenet_v3<false>},
    {"nasnet_large",
     [](std::int64_t classes, NamedOptions&) {
       return made<models::NasnetOptions>(
           models::nasnet,
           {.classes = classes, .filters = 4032, .blocks = 6, .stem_filters = 96, .skip_reduction = true});
     }},
    {"nasnet_mobile",
     [](std::int64_t classes, NamedOptions& o) {
       return made<models::NasnetOptions>(models::nasnet, {.classes = classes, .filters = o.integer("filters", 1056)});
     }},
    {"resnet101", resnet<models::resnet101>},
    {"resnet101_v2", resnet_v2<4, 23>},
    {"resnet152", resnet<models::resnet152>},
    {"resnet152_v2", resnet_v2<8, 36>},
    {"resnet50", resnet<models::resnet50>},
    {"resnet50_v2", resnet_v2<4, 6>},
    {"vgg16", vgg<3>},
    {"vgg19", vgg<4>},
    {"xception", [](std::int64_t classes,
                    NamedOptions&) { return made<models::XceptionOptions>(models::xception, {.classes = classes}); }},
};

}  // namespace

std::vector<ModelEntry> with_image_models(std::vector<ModelEntry> others) {
  others.insert(others.end(), std::begin(entries), std::end(entries));
  std::ranges::sort(others, {}, &ModelEntry::name);
  return others;
}

}  // namespace lockstep::cli
