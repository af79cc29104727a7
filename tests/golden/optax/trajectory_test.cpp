#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/golden/optax/cases.h"

// Ten steps of every transformation, and every schedule, against Optax in float64.
namespace lockstep::tests::optax {
namespace {

using Values = std::vector<double>;
/// The lines behind a name, by what stands before their bar.
using Lines = std::map<std::string, Values>;

constexpr double tolerance = 1e-10;

Values values_of(const std::string& text) {
  Values values;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) values.push_back(std::stod(word));
  return values;
}

std::map<std::string, Lines> stored() {
  std::ifstream file(std::filesystem::path(LOCKSTEP_TESTS_DIR) / "golden/optax/trajectories.txt");
  REQUIRE(file.good());
  std::map<std::string, Lines> all;
  std::string name;
  for (std::string line; std::getline(file, line);) {
    const std::size_t bar = line.find(" | ");
    if (line[0] == '#') continue;
    REQUIRE(bar != std::string::npos);
    if (line[0] == ' ') {
      all[name][line.substr(1, bar - 1)] = values_of(line.substr(bar + 3));
    } else {
      name = line.substr(0, bar);
      all[name];
    }
  }
  return all;
}

const std::vector<std::pair<std::string, std::vector<std::int64_t>>> shapes = {
    {"bias", {2}}, {"conv", {2, 1, 1, 2}}, {"kernel", {2, 3}}, {"scale", {}}};

Tree tree_of(const Values& values) {
  std::map<std::string, Tree> leaves;
  std::size_t at = 0;
  for (const auto& [name, shape] : shapes) {
    std::size_t size = 1;
    for (const std::int64_t extent : shape) size *= static_cast<std::size_t>(extent);
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(at);
    leaves.emplace(name, Tree(reshape(array(Values(begin, begin + static_cast<std::ptrdiff_t>(size))), shape)));
    at += size;
  }
  return Tree::dict(std::move(leaves));
}

Values values_of(const Tree& tree) {
  Values values;
  for (const Array& leaf : tree.leaves()) {
    const Values own = reshape(leaf, {-1}).to_vector<double>();
    values.insert(values.end(), own.begin(), own.end());
  }
  return values;
}

bool near(const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i])))) return false;
  }
  return true;
}

/// An update by the valley's own gradient.
std::pair<Tree, Tree> down_valley(const Case& c, const Tree& state, const Tree& params) {
  const auto [loss, gradient] = value_and_grad(valley)(params);
  return optim::update(c.transformation, gradient, state, params, {loss, valley});
}

/// The first step behind which parameters are others; 0: none.
int first_difference(const Case& c, const Lines& given, const Lines& expected) {
  Tree params = tree_of(given.at("parameters"));
  Tree state = c.transformation.init(params);
  const auto step = jit([&c](const Tree& p, const Tree& s, const Tree& g, const Array& loss) {
    auto [updates, next] = c.of_valley ? down_valley(c, s, p) : optim::update(c.transformation, g, s, p, loss);
    return std::pair(optim::apply_updates(p, updates), next);
  });
  for (int i = 1; i <= 10; ++i) {
    Values gradient = given.at(std::to_string(i));
    if (c.nans && (i == 3 || i == 4)) gradient[7] = std::nan("");
    auto [moved, next] =
        step(params, state, tree_of(gradient), array(given.at("losses")[static_cast<std::size_t>(i - 1)]));
    check_same_types(state, next, c.name);
    params = moved;
    state = next;
    if (!near(values_of(params), expected.at(std::to_string(i)))) return i;
  }
  return 0;
}

}  // namespace

TEST_CASE("ten steps of every transformation are those of Optax") {
  const auto expected = stored();
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    REQUIRE(expected.contains(c.name));
    CHECK_MESSAGE(first_difference(c, expected.at("given"), expected.at(c.name)) == 0, c.name);
  }
  CHECK(expected.size() == cases().size() + schedule_cases().size() + 1);
}

TEST_CASE("every schedule is Optax'") {
  const auto expected = stored();
  for (const ScheduleCase& c : schedule_cases()) {
    CAPTURE(c.name);
    REQUIRE(expected.contains("schedules/" + c.name));
    for (const auto& [step, value] : expected.at("schedules/" + c.name)) {
      const Array given = c.schedule(full({}, std::stoll(step), int32));
      CHECK(given.dtype() == float64);
      CHECK_MESSAGE(given.item<double>() == doctest::Approx(value[0]).epsilon(1e-12), "step " << step);
    }
  }
}

}  // namespace lockstep::tests::optax
