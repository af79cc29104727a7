#include <iterator>
#include <string>
#include <string_view>

#include <lockstep/layers.h>
#include <lockstep/models.h>

#include "engine/cli/choices.h"
#include "engine/cli/model_entries.h"
#include "engine/cli/named_options.h"

namespace lockstep::cli {
namespace {

/// A model that gives something else than classes, as the backbone of a dense layer "classes".
template <class F>
Made classified(std::int64_t classes, F features) {
  return Made([classes, features](Scope& s, const Array& x) {
    return dense(s["classes"], features(s, x), {.units = classes});
  });
}

models::TransformerOptions blocks_of(NamedOptions& o, const models::TransformerOptions& usual) {
  return {.width = o.integer("width", usual.width),
          .depth = o.integer("depth", usual.depth),
          .heads = o.integer("heads", usual.heads)};
}

constexpr ModelEntry model_entries[] = {
    {"autoencoder",
     [](std::int64_t classes, NamedOptions& o) {
       const models::AutoencoderOptions usual;
       const models::AutoencoderOptions own{
           .units = o.integers("units", usual.units), .code = o.integer("code", usual.code), .head = false};
       return classified(classes, [own](const Scope& s, const Array& x) { return models::autoencoder(s, x, own); });
     }},
    {"cnn",
     [](std::int64_t classes, NamedOptions& o) {
       return made<models::CnnOptions>(
           models::cnn, {.classes = classes, .dropout = o.number("dropout", models::CnnOptions().dropout)});
     }},
    {"lenet", [](std::int64_t classes,
                 NamedOptions&) { return made<models::LenetOptions>(models::lenet, {.classes = classes}); }},
    {"lstm",
     [](std::int64_t classes, NamedOptions& o) {
       const models::LstmClassifierOptions usual;
       return made<models::LstmClassifierOptions>(
           models::lstm_classifier,
           {.classes = classes, .units = o.integer("units", usual.units), .layers = o.integer("layers", usual.layers)});
     }},
    {"mixer",
     [](std::int64_t classes, NamedOptions& o) {
       const models::MixerOptions usual;
       return made<models::MixerOptions>(models::mixer,
                                         {.classes = classes,
                                          .patch = o.integer("patch", usual.patch),
                                          .width = o.integer("width", usual.width),
                                          .depth = o.integer("depth", usual.depth),
                                          .token_units = o.integer("token_units", usual.token_units),
                                          .channel_units = o.integer("channel_units", usual.channel_units)});
     }},
    {"mlp",
     [](std::int64_t classes, NamedOptions& o) {
       const models::MlpOptions usual;
       return made<models::MlpOptions>(
           models::mlp,
           {.classes = classes, .units = o.integer("units", usual.units), .layers = o.integer("layers", usual.layers)});
     }},
    {"resnet18",
     [](std::int64_t classes, NamedOptions& o) {
       return made<models::ResnetOptions>(models::resnet18,
                                          {.classes = classes, .large_images = o.flag("large_images", false)});
     }},
    {"resnet20",
     [](std::int64_t classes, NamedOptions& o) {
       const models::ResnetOptions usual;
       return made<models::ResnetOptions>(models::resnet, {.classes = classes,
                                                           .filters = o.integers("filters", usual.filters),
                                                           .blocks = o.integers("blocks", usual.blocks),
                                                           .bottleneck = o.flag("bottleneck", usual.bottleneck),
                                                           .large_images = o.flag("large_images", false)});
     }},
    {"unet",
     [](std::int64_t classes, NamedOptions& o) {
       const models::UnetOptions own{.filters = o.integers("filters", {16, 32, 64}), .head = false};
       return classified(classes,
                         [own](const Scope& s, const Array& x) { return global_avg_pool2d(models::unet(s, x, own)); });
     }},
    {"vae",
     [](std::int64_t classes, NamedOptions& o) {
       const models::VaeOptions usual;
       const models::VaeOptions own{.filters = o.integers("filters", usual.filters),
                                    .units = o.integer("units", usual.units),
                                    .code = o.integer("code", usual.code),
                                    .head = false};
       return classified(classes, [own](const Scope& s, const Array& x) { return models::vae(s, x, own).result; });
     }},
    {"vit",
     [](std::int64_t classes, NamedOptions& o) {
       const models::VitOptions usual;
       return made<models::VitOptions>(
           models::vit,
           {.classes = classes, .patch = o.integer("patch", usual.patch), .blocks = blocks_of(o, usual.blocks)});
     }},
};

}  // namespace

Model<Array, Array> chosen_model(const std::string& name, std::int64_t classes, const GivenOptions& given) {
  NamedOptions options("model", given);
  const std::vector<ModelEntry> all = with_image_models({std::begin(model_entries), std::end(model_entries)});
  Model<Array, Array> model = entry_of(all, "model", name).make(classes, options);
  options.check_all_taken("the model '" + name + "'");
  return model;
}

}  // namespace lockstep::cli
