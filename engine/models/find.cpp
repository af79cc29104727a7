#include <lockstep/error.h>
#include <lockstep/models.h>

namespace lockstep::models {

namespace {

using Build = Array (*)(const Scope&, const Array&);

struct Entry {
  std::string_view name;
  Build build;
};

constexpr Entry known[] = {
    {"cnn", [](const Scope& s, const Array& x) { return cnn(s, x); }},
    {"lstm", [](const Scope& s, const Array& x) { return lstm_classifier(s, x); }},
    {"mlp", [](const Scope& s, const Array& x) { return mlp(s, x); }},
    {"resnet18", [](const Scope& s, const Array& x) { return resnet18(s, x); }},
    {"resnet20", [](const Scope& s, const Array& x) { return resnet(s, x); }},
    {"vit", [](const Scope& s, const Array& x) { return vit(s, x); }},
};

}  // namespace

const std::vector<std::string_view>& names() {
  static const std::vector<std::string_view> list = [] {
    std::vector<std::string_view> all;
    for (const Entry& entry : known) all.push_back(entry.name);
    return all;
  }();
  return list;
}

Model<Array, Array> find(std::string_view name) {
  std::string list;
  for (const Entry& entry : known) {
    if (entry.name == name) return Model(entry.build);
    list += (list.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw ValueError("[models] no model '" + std::string(name) + "'; known are " + list);
}

}  // namespace lockstep::models
