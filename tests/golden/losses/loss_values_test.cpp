#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/golden/losses/cases.h"
#include "tests/golden/named_values.h"

// Every loss, its derivatives and second derivatives, and every metric, against Optax and Keras in float64.
namespace lockstep::tests::losses {
namespace {

constexpr double loss_tolerance = 1e-10;

Values float64_values(const Array& x) { return reshape(convert(x, float64), {-1}).to_vector<double>(); }

bool losses_near(const Values& a, const Values& b, double room) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= room * (1 + std::abs(b[i])))) return false;
  }
  return true;
}

void check_loss(const std::string& what, const Values& given, const Values& expected, double room) {
  std::string text;
  for (std::size_t i = 0; i < std::min(given.size(), expected.size()); ++i) {
    if (losses_near({given[i]}, {expected[i]}, room)) continue;
    text = "element " + std::to_string(i) + " is " + std::to_string(given[i]) + ", not " + std::to_string(expected[i]);
    break;
  }
  CHECK_MESSAGE(losses_near(given, expected, room), what << ": " << text);
}

/// These quotients of Keras' have an epsilon of 1e-7 below.
double loss_room(const Case& c) { return c.name.ends_with("/whole") ? 1e-6 : loss_tolerance; }

Array cosines_of_counts(const Array& x) {
  const std::span<const std::int64_t> extents = x.shape().dims();
  return reshape(cos(convert(arange(x.type().size()), x.dtype())), {extents.begin(), extents.end()});
}

}  // namespace

TEST_CASE("every loss is Optax' or Keras', and so are its derivatives and its second derivatives") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    REQUIRE(stored().lines.contains(c.name));
    const NamedValues& expected = stored().lines.at(c.name);
    const Array weight = c.weights.empty() ? Array() : stored().given.at(c.weights);
    const auto sum_of = [&](const std::string& name, const Array& x) {
      Given moved = stored().given;
      moved[name] = x;
      return c.loss(moved, weight).sum;
    };
    const Weighted sums = c.loss(stored().given, weight);
    check_loss("sum", float64_values(sums.sum), expected.at("sum"), loss_room(c));
    check_loss("weight", float64_values(sums.weight), expected.at("weight"), loss_room(c));
    for (const std::string& name : c.operands) {
      if (!expected.contains("by " + name)) continue;
      const auto gradient =
          jit([&](const Array& v) { return grad([&](const Array& u) { return sum_of(name, u); })(v); });
      check_loss("by " + name, float64_values(gradient(stored().given.at(name))), expected.at("by " + name),
                 loss_room(c));
    }
    const std::string& first = c.operands[0];
    const Array x = stored().given.at(first), along = cosines_of_counts(x);
    const auto slope = [&](const Array& v) {
      return sum(grad([&](const Array& u) { return sum_of(first, u); })(v) * along);
    };
    check_loss("twice", float64_values(grad(slope)(x)), expected.at("twice"), 10 * loss_room(c));
  }
}

TEST_CASE("every metric is Keras'") {
  for (const MetricCase& c : metric_cases()) {
    CAPTURE(c.name);
    REQUIRE(stored().lines.contains("metrics/" + c.name));
    const Weighted sums = c.sums(stored().given, stored().given.at("importance"));
    check_loss("value", float64_values(c.value(sums)), stored().lines.at("metrics/" + c.name).at("value"), c.tolerance);
  }
  CHECK(stored().lines.size() == cases().size() + metric_cases().size());
}

}  // namespace lockstep::tests::losses
