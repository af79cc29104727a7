// Image classifiers at the sizes of the literature, by name.

#include <string_view>
#include <vector>

#include <lockstep/vision/models.h>

#include "engine/models/entries.h"

namespace lockstep::models {
namespace {

template <ConvnextSize size>
Made convnext_of(std::int64_t classes, OptionsByName& o) {
  const ConvnextOptions usual;
  return made<ConvnextOptions>(convnext, {.classes = classes,
                                          .size = size,
                                          .drop_path = o.number("drop_path", usual.drop_path),
                                          .layer_scale = o.number("layer_scale", usual.layer_scale)});
}

template <std::int64_t third, std::int64_t fourth>
Made densenet_of(std::int64_t classes, OptionsByName& o) {
  return made<DensenetOptions>(
      densenet, {.classes = classes, .blocks = {6, 12, third, fourth}, .growth = o.integer("growth", 32)});
}

template <int size>
Made efficientnet_of(std::int64_t classes, OptionsByName& o) {
  return made<EfficientnetOptions>(efficientnet,
                                   {.classes = classes, .size = size, .drop_connect = o.number("drop_connect", 0.2)});
}

template <EfficientnetV2Size size>
Made efficientnet_v2_of(std::int64_t classes, OptionsByName& o) {
  return made<EfficientnetV2Options>(efficientnet_v2, {.classes = classes,
                                                       .size = size,
                                                       .dropout = o.number("dropout", 0.2),
                                                       .drop_connect = o.number("drop_connect", 0.2)});
}

Made mobilenet_of(std::int64_t classes, OptionsByName& o) {
  return made<MobilenetOptions>(
      mobilenet, {.classes = classes, .width = o.number("width", 1), .dropout = o.number("dropout", 0.001)});
}

Made mobilenet_v2_of(std::int64_t classes, OptionsByName& o) {
  return made<MobilenetOptions>(mobilenet_v2, {.classes = classes, .width = o.number("width", 1)});
}

template <bool large>
Made mobilenet_v3_of(std::int64_t classes, OptionsByName& o) {
  return made<MobilenetV3Options>(
      mobilenet_v3,
      {.classes = classes, .large = large, .width = o.number("width", 1), .dropout = o.number("dropout", 0.2)});
}

template <std::int64_t second, std::int64_t third>
Made resnet_v2_of(std::int64_t classes, OptionsByName&) {
  return made<ResnetV2Options>(resnet_v2, {.classes = classes, .blocks = {3, second, third, 3}});
}

template <std::int64_t each>
Made vgg_of(std::int64_t classes, OptionsByName& o) {
  return made<VggOptions>(vgg,
                          {.classes = classes, .blocks = {2, 2, each, each, each}, .units = o.integer("units", 4096)});
}

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
    {"efficientnet_v2_b0", efficientnet_v2_of<EfficientnetV2Size::b0>},
    {"efficientnet_v2_b1", efficientnet_v2_of<EfficientnetV2Size::b1>},
    {"efficientnet_v2_b2", efficientnet_v2_of<EfficientnetV2Size::b2>},
    {"efficientnet_v2_b3", efficientnet_v2_of<EfficientnetV2Size::b3>},
    {"efficientnet_v2_l", efficientnet_v2_of<EfficientnetV2Size::l>},
    {"efficientnet_v2_m", efficientnet_v2_of<EfficientnetV2Size::m>},
    {"efficientnet_v2_s", efficientnet_v2_of<EfficientnetV2Size::s>},
    {"inception_resnet_v2",
     [](std::int64_t classes, OptionsByName&) {
       return made<InceptionResnetV2Options>(inception_resnet_v2, {.classes = classes});
     }},
    {"inception_v3",
     [](std::int64_t classes, OptionsByName&) { return made<InceptionV3Options>(inception_v3, {.classes = classes}); }},
    {"mobilenet", mobilenet_of},
    {"mobilenet_v2", mobilenet_v2_of},
    {"mobilenet_v3_large", mobilenet_v3_of<true>},
    {"mobilenet_v3_small", mobilenet_v3_of<false>},
    {"nasnet_large",
     [](std::int64_t classes, OptionsByName&) {
       return made<NasnetOptions>(
           nasnet, {.classes = classes, .filters = 4032, .blocks = 6, .stem_filters = 96, .skip_reduction = true});
     }},
    {"nasnet_mobile",
     [](std::int64_t classes, OptionsByName& o) {
       return made<NasnetOptions>(nasnet, {.classes = classes, .filters = o.integer("filters", 1056)});
     }},
    {"resnet101_v2", resnet_v2_of<4, 23>},
    {"resnet152_v2", resnet_v2_of<8, 36>},
    {"resnet50_v2", resnet_v2_of<4, 6>},
    {"vgg16", vgg_of<3>},
    {"vgg19", vgg_of<4>},
    {"xception",
     [](std::int64_t classes, OptionsByName&) { return made<XceptionOptions>(xception, {.classes = classes}); }},
};

}  // namespace

const std::vector<std::string_view>& image_classifier_names() {
  static const std::vector<std::string_view> list = [] {
    std::vector<std::string_view> all;
    for (const ModelEntry& entry : entries) all.push_back(entry.name);
    return all;
  }();
  return list;
}

Model<Array, Array> find_image_classifier(std::string_view name, std::int64_t classes, OptionsByName& options) {
  return entry_named(entries, name).make(classes, options);
}

Model<Array, Array> find_image_classifier(std::string_view name) {
  OptionsByName defaults;
  return find_image_classifier(name, 10, defaults);
}

}  // namespace lockstep::models
