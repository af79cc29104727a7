#include <lockstep/error.h>
#include <lockstep/models.h>

namespace lockstep::models {

const std::vector<std::string_view>& names() {
  static const std::vector<std::string_view> known = {"cnn", "mlp"};
  return known;
}

Model<Array, Array> find(std::string_view name) {
  if (name == "mlp") return Model([](Scope& scope, const Array& x) { return mlp(scope, x); });
  if (name == "cnn") return Model([](Scope& scope, const Array& x) { return cnn(scope, x); });
  std::string list;
  for (const std::string_view known : names()) list += (list.empty() ? "" : ", ") + std::string(known);
  throw ValueError("[models] no model '" + std::string(name) + "'; known are " + list);
}

}  // namespace lockstep::models
