// The models of models.h by name.

#include <lockstep/error.h>
#include <lockstep/layers.h>
#include <lockstep/models.h>

#include "engine/models/entries.h"

namespace lockstep::models {

namespace {

/// A model that gives something else than classes, as the backbone of a dense layer "classes".
template <class F>
Made classified(std::int64_t classes, F features) {
  return Made([classes, features](Scope& s, const Array& x) {
    return dense(s["classes"], features(s, x), {.units = classes});
  });
}

TransformerOptions transformer_blocks(OptionsByName& o, const TransformerOptions& usual) {
  return {.width = o.integer("width", usual.width),
          .depth = o.integer("depth", usual.depth),
          .heads = o.integer("heads", usual.heads)};
}

template <class Options, Array (*model)(const Scope&, const Array&, const Options&)>
Made layers_of(std::int64_t classes, OptionsByName& o) {
  const Options usual;
  return made<Options>(
      model,
      {.classes = classes, .units = o.integer("units", usual.units), .layers = o.integer("layers", usual.layers)});
}

template <Array (*model)(const Scope&, const Array&, const ResnetOptions&)>
Made resnet_of(std::int64_t classes, OptionsByName& o) {
  return made<ResnetOptions>(model, {.classes = classes, .large_images = o.flag("large_images", false)});
}

constexpr ModelEntry entries_of_core[] = {
    {"autoencoder",
     [](std::int64_t classes, OptionsByName& o) {
       const AutoencoderOptions usual;
       const AutoencoderOptions own{
           .units = o.integers("units", usual.units), .code = o.integer("code", usual.code), .head = false};
       return classified(classes, [own](const Scope& s, const Array& x) { return autoencoder(s, x, own); });
     }},
    {"cnn",
     [](std::int64_t classes, OptionsByName& o) {
       return made<CnnOptions>(cnn, {.classes = classes, .dropout = o.number("dropout", CnnOptions().dropout)});
     }},
    {"lenet", [](std::int64_t classes, OptionsByName&) { return made<LenetOptions>(lenet, {.classes = classes}); }},
    {"lstm", layers_of<LstmClassifierOptions, lstm_classifier>},
    {"mixer",
     [](std::int64_t classes, OptionsByName& o) {
       const MixerOptions usual;
       return made<MixerOptions>(mixer, {.classes = classes,
                                         .patch = o.integer("patch", usual.patch),
                                         .width = o.integer("width", usual.width),
                                         .depth = o.integer("depth", usual.depth),
                                         .token_units = o.integer("token_units", usual.token_units),
                                         .channel_units = o.integer("channel_units", usual.channel_units)});
     }},
    {"mlp", layers_of<MlpOptions, mlp>},
    {"resnet101", resnet_of<resnet101>},
    {"resnet152", resnet_of<resnet152>},
    {"resnet18", resnet_of<resnet18>},
    {"resnet20",
     [](std::int64_t classes, OptionsByName& o) {
       const ResnetOptions usual;
       return made<ResnetOptions>(resnet, {.classes = classes,
                                           .filters = o.integers("filters", usual.filters),
                                           .blocks = o.integers("blocks", usual.blocks),
                                           .bottleneck = o.flag("bottleneck", usual.bottleneck),
                                           .large_images = o.flag("large_images", false)});
     }},
    {"resnet50", resnet_of<resnet50>},
    {"unet",
     [](std::int64_t classes, OptionsByName& o) {
       const UnetOptions own{.filters = o.integers("filters", {16, 32, 64}), .head = false};
       return classified(classes, [own](const Scope& s, const Array& x) { return global_avg_pool2d(unet(s, x, own)); });
     }},
    {"vae",
     [](std::int64_t classes, OptionsByName& o) {
       const VaeOptions usual;
       const VaeOptions own{.filters = o.integers("filters", usual.filters),
                            .units = o.integer("units", usual.units),
                            .code = o.integer("code", usual.code),
                            .head = false};
       return classified(classes, [own](const Scope& s, const Array& x) { return vae(s, x, own).result; });
     }},
    {"vit",
     [](std::int64_t classes, OptionsByName& o) {
       const VitOptions usual;
       return made<VitOptions>(vit, {.classes = classes,
                                     .patch = o.integer("patch", usual.patch),
                                     .blocks = transformer_blocks(o, usual.blocks)});
     }},
};

}  // namespace

const ModelEntry& entry_named(std::span<const ModelEntry> entries, std::string_view name) {
  std::string list;
  for (const ModelEntry& entry : entries) {
    if (entry.name == name) return entry;
    list += (list.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw ValueError("[models] no model '" + std::string(name) + "'; known are " + list);
}

const std::vector<std::string_view>& names() {
  static const std::vector<std::string_view> list = [] {
    std::vector<std::string_view> all;
    for (const ModelEntry& entry : entries_of_core) all.push_back(entry.name);
    return all;
  }();
  return list;
}

OptionsByName::~OptionsByName() = default;
double OptionsByName::number(const std::string&, double otherwise) { return otherwise; }
std::int64_t OptionsByName::integer(const std::string&, std::int64_t otherwise) { return otherwise; }
bool OptionsByName::flag(const std::string&, bool otherwise) { return otherwise; }
std::vector<std::int64_t> OptionsByName::integers(const std::string&, const std::vector<std::int64_t>& otherwise) {
  return otherwise;
}

Model<Array, Array> find(std::string_view name, std::int64_t classes, OptionsByName& options) {
  return entry_named(entries_of_core, name).make(classes, options);
}

Model<Array, Array> find(std::string_view name) {
  OptionsByName defaults;
  return find(name, 10, defaults);
}

}  // namespace lockstep::models
