#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/golden/layers/catalogue.h"
#include "tests/golden/named_values.h"

// Every layer's results and gradients against Keras, PyTorch and JAX in float64.
namespace lockstep::tests::layers {
namespace {

std::map<std::string, NamedValues> stored_layers() {
  std::ifstream file(std::filesystem::path(LOCKSTEP_TESTS_DIR) / "golden/layers/values.txt");
  REQUIRE(file.good());
  std::map<std::string, NamedValues> all;
  std::string name;
  for (std::string line; std::getline(file, line);) {
    const std::size_t bar = line.find(" | ");
    if (line[0] == '#' || bar == std::string::npos) continue;
    if (line[0] != ' ') {
      name = line.substr(0, bar);
      all[name];
      continue;
    }
    Values& values = all[name][line.substr(1, bar - 1)];
    std::istringstream stream(line.substr(bar + 3));
    for (std::string word; stream >> word;) values.push_back(std::stod(word));
  }
  return all;
}

void check_stored(const std::string& what, const Array& given, const NamedValues& expected) {
  REQUIRE_MESSAGE(expected.contains(what), what);
  const Values a = reshape(given, {-1}).to_vector<double>(), b = expected.at(what);
  REQUIRE_MESSAGE(a.size() == b.size(), what);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::abs(a[i] - b[i]) <= 1e-10 * (1 + std::abs(b[i]))) continue;
    CHECK_MESSAGE(false, what << ", element " << i << " is " << a[i] << ", not " << b[i]);
    return;
  }
}

}  // namespace

TEST_CASE("every layer's result and its gradients are Keras', PyTorch's or JAX'") {
  const auto expected = stored_layers();
  std::set<std::string> held;
  for (const CatalogueLayer& layer : catalogue()) {
    if (layer.draws) continue;
    CAPTURE(layer.name);
    REQUIRE(expected.contains(layer.name));
    const NamedValues& lines = expected.at(layer.name);
    held.insert(layer.name);
    const Model<Array, Array> model([&](Scope& s, const Array& x) { return layer.layer(s, x, Aggregation::none); });
    const Array x = rows_of(layer, 2);
    const auto [w, state] = filled_variables(model, x);
    const auto loss = [&, state = state](const Tree& v, const Array& input) {
      const Array y = model.stateless_call(v, state, input, true).first;
      const Array along = cos(convert(arange(y.type().size()), float64));
      return std::pair(sum(reshape(y, {-1}) * along), y);
    };
    const auto [value, gradients] =
        jit([&](const Tree& v, const Array& input) { return value_and_grad<0, 1>(loss)(v, input); })(w, x);
    check_stored("y", value.second, lines);
    check_stored("by x", std::get<1>(gradients), lines);
    CHECK(lines.size() == w.leaves().size() + 2);
    for (const std::string& path : w.paths())
      check_stored("by " + path, std::get<0>(gradients).at(path).array(), lines);
  }
  CHECK(held.size() == expected.size());
}

}  // namespace lockstep::tests::layers
