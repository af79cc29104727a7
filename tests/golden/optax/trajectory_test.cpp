#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/golden/named_values.h"
#include "tests/golden/optax/cases.h"

// Ten steps of every transformation, and every schedule, against Optax in float64.
namespace lockstep::tests::optax {
namespace {

constexpr double trajectory_tolerance = 1e-10;

Values flat_values(const std::string& text) {
  Values values;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) values.push_back(std::stod(word));
  return values;
}

std::map<std::string, NamedValues> stored_trajectories() {
  std::ifstream file(std::filesystem::path(LOCKSTEP_TESTS_DIR) / "golden/optax/trajectories.txt");
  REQUIRE(file.good());
  std::map<std::string, NamedValues> all;
  std::string name;
  for (std::string line; std::getline(file, line);) {
    const std::size_t bar = line.find(" | ");
    if (line[0] == '#') continue;
    REQUIRE(bar != std::string::npos);
    if (line[0] == ' ') {
      all[name][line.substr(1, bar - 1)] = flat_values(line.substr(bar + 3));
    } else {
      name = line.substr(0, bar);
      all[name];
    }
  }
  return all;
}

const std::vector<std::pair<std::string, std::vector<std::int64_t>>> leaf_shapes = {
    {"bias", {2}}, {"conv", {2, 1, 1, 2}}, {"kernel", {2, 3}}, {"scale", {}}};

Tree tree_of(const Values& values) {
  std::map<std::string, Tree> leaves;
  std::size_t at = 0;
  for (const auto& [name, shape] : leaf_shapes) {
    std::size_t size = 1;
    for (const std::int64_t extent : shape) size *= static_cast<std::size_t>(extent);
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(at);
    leaves.emplace(name, Tree(reshape(array(Values(begin, begin + static_cast<std::ptrdiff_t>(size))), shape)));
    at += size;
  }
  return Tree::dict(std::move(leaves));
}

Values flat_values(const Tree& tree) {
  Values values;
  for (const Array& leaf : tree.leaves()) {
    const Values own = reshape(leaf, {-1}).to_vector<double>();
    values.insert(values.end(), own.begin(), own.end());
  }
  return values;
}

bool trajectory_near(const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= trajectory_tolerance * (1 + std::abs(b[i])))) return false;
  }
  return true;
}

/// An update by the valley's own gradient.
std::pair<Tree, Tree> down_valley(const Case& c, const Tree& state, const Tree& params) {
  const auto [loss, gradient] = value_and_grad(valley)(params);
  return optim::update(c.transformation, gradient, state, params, {loss, valley});
}

/// The first step behind which parameters are others; 0: none.
int first_other_step(const Case& c, const NamedValues& given, const NamedValues& expected) {
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
    if (!trajectory_near(flat_values(params), expected.at(std::to_string(i)))) return i;
  }
  return 0;
}

}  // namespace

TEST_CASE("ten steps of every transformation are those of Optax") {
  const auto expected = stored_trajectories();
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    REQUIRE(expected.contains(c.name));
    CHECK_MESSAGE(first_other_step(c, expected.at("given"), expected.at(c.name)) == 0, c.name);
  }
  CHECK(expected.size() == cases().size() + schedule_cases().size() + 1);
}

TEST_CASE("every schedule is Optax'") {
  const auto expected = stored_trajectories();
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
