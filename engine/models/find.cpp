#include <algorithm>

#include <lockstep/error.h>
#include <lockstep/layers.h>
#include <lockstep/models.h>

#include "engine/models/images/sizes.h"

namespace lockstep::models {

namespace {

// Models that give something else than classes are backbones of a dense layer here.
constexpr ModelEntry others[] = {
    {"autoencoder",
     [](const Scope& s, const Array& x) {
       return dense(s["classes"], autoencoder(s, x, {.head = false}), {.units = 10});
     }},
    {"cnn", [](const Scope& s, const Array& x) { return cnn(s, x); }},
    {"lenet", [](const Scope& s, const Array& x) { return lenet(s, x); }},
    {"lstm", [](const Scope& s, const Array& x) { return lstm_classifier(s, x); }},
    {"mixer", [](const Scope& s, const Array& x) { return mixer(s, x); }},
    {"mlp", [](const Scope& s, const Array& x) { return mlp(s, x); }},
    {"resnet18", [](const Scope& s, const Array& x) { return resnet18(s, x); }},
    {"resnet20", [](const Scope& s, const Array& x) { return resnet(s, x); }},
    {"resnet50", [](const Scope& s, const Array& x) { return resnet50(s, x); }},
    {"unet",
     [](const Scope& s, const Array& x) {
       return dense(s["classes"], global_avg_pool2d(unet(s, x, {.filters = {16, 32, 64}, .head = false})),
                    {.units = 10});
     }},
    {"vae", [](const Scope& s,
               const Array& x) { return dense(s["classes"], vae(s, x, {.head = false}).result, {.units = 10}); }},
    {"vit", [](const Scope& s, const Array& x) { return vit(s, x); }},
};

/// All, by name.
const std::vector<ModelEntry>& known() {
  static const std::vector<ModelEntry> all = [] {
    std::vector<ModelEntry> both(std::begin(others), std::end(others));
    both.insert(both.end(), image_entries().begin(), image_entries().end());
    std::ranges::sort(both, {}, &ModelEntry::name);
    return both;
  }();
  return all;
}

}  // namespace

const std::vector<std::string_view>& names() {
  static const std::vector<std::string_view> list = [] {
    std::vector<std::string_view> all;
    for (const ModelEntry& entry : known()) all.push_back(entry.name);
    return all;
  }();
  return list;
}

Model<Array, Array> find(std::string_view name) {
  std::string list;
  for (const ModelEntry& entry : known()) {
    if (entry.name == name) return Model(entry.build);
    list += (list.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw ValueError("[models] no model '" + std::string(name) + "'; known are " + list);
}

}  // namespace lockstep::models
