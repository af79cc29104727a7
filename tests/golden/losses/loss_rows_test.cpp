#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/golden/losses/cases.h"
#include "tests/support/non_finite.h"
#include "tests/support/replicas.h"

// What holds of every loss and every metric: rows of weight 0 may hold anything, shards add up to one device's result, and
// transforms, rows of rows and narrow dtypes mean the same.
namespace lockstep::tests::losses {
namespace {

struct Filling {
  double number = 0;
  std::int64_t integer = 0;
};
const std::vector<Filling> fillings = {
    {0.5, 0}, {not_a_number, 99}, {infinity, -1}, {-infinity, std::numeric_limits<std::int32_t>::min()}};

/// The operands with as many rows more.
Given with_rows(const std::vector<std::string>& operands, std::int64_t more, const Filling& filling) {
  Given rows;
  for (const std::string& name : operands) {
    const Array x = stored().given.at(name);
    std::vector<std::int64_t> extents(x.shape().dims().begin(), x.shape().dims().end());
    extents[0] = more;
    const Array filled = is_integer(x.dtype()) ? full(Shape(extents), filling.integer, x.dtype())
                                               : full(Shape(extents), filling.number, x.dtype());
    rows.emplace(name, concatenate({x, filled}, 0));
  }
  return rows;
}

/// Rows 0 to 2 of `rows` count, the others do not: for losses that compare rows, all of one kind.
Array weights_of(const Case& c, std::int64_t more) {
  const Array own = stored().given.at(c.compares_rows ? "ones" : "weight");
  return concatenate({own, zeros({more}, float64)}, 0);
}

Tree results_of(const Weighted& sums, const Tree& gradients) {
  return Tree::list({Tree(sums.sum), Tree(sums.weight), gradients});
}

/// Sum, weight and the gradients by all inexact operands.
Tree loss_and_gradients(const Case& c, const Given& rows, const Array& weight) {
  std::map<std::string, Array> inexact;
  for (const auto& [name, x] : rows) {
    if (is_inexact(x.dtype())) inexact.emplace(name, x);
  }
  const auto sum_of = [&](const std::map<std::string, Array>& moved) {
    Given all = rows;
    for (const auto& [name, x] : moved) all[name] = x;
    const Weighted sums = c.loss(all, weight);
    return std::pair(sums.sum, sums.weight);
  };
  const auto [values, gradients] = value_and_grad(sum_of)(inexact);
  return results_of({values.first, values.second}, to_tree(gradients));
}

bool rows_near(const Array& a, const Array& b, double room) {
  if (a.shape() != b.shape()) return false;
  const auto p = convert(a, float64).to_vector<double>(), q = convert(b, float64).to_vector<double>();
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (!(std::abs(p[i] - q[i]) <= room * (1 + std::abs(q[i])))) return false;
  }
  return true;
}

void check_rows_near(const Tree& a, const Tree& b, double room, const std::string& what) {
  REQUIRE(a.paths() == b.paths());
  for (std::size_t i = 0; i < a.leaves().size(); ++i) {
    CHECK_MESSAGE(rows_near(a.leaves()[i], b.leaves()[i], room), what << ", leaf " << a.paths()[i]);
  }
}

Given in_dtype(Given rows, DType dtype) {
  for (auto& [name, x] : rows) {
    if (is_float(x.dtype())) x = convert(x, dtype);
  }
  return rows;
}

}  // namespace

TEST_CASE("no loss and none of its gradients see what rows of weight 0 hold") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const Array weight = weights_of(c, 2);
    std::string expected;
    for (const Filling& filling : fillings) {
      CAPTURE(filling.number);
      const std::string bits = fingerprint(loss_and_gradients(c, with_rows(c.operands, 2, filling), weight));
      if (expected.empty()) expected = bits;
      CHECK_MESSAGE(bits == expected, c.name);
    }
    const Tree alone = loss_and_gradients(c, with_rows(c.operands, 0, {}), weights_of(c, 0));
    const Tree padded = loss_and_gradients(c, with_rows(c.operands, 2, {not_a_number, 99}), weight);
    CHECK_MESSAGE(rows_near(padded.items()[0].array(), alone.items()[0].array(), 1e-12), c.name);
  }
}

TEST_CASE("every loss over 1, 2 and 4 shards is that of one device, and so are its gradients") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const Given rows = with_rows(c.operands, 4, {not_a_number, 99});
    const Array weight = weights_of(c, 4);
    const Weighted whole = c.loss(rows, weight);
    const Array mean = whole.sum / whole.weight;
    const Array slope = loss_and_gradients(c, rows, weight).items()[2].at(c.operands[0]).array() / whole.weight;
    for (const std::int64_t shards : {1, 2, 4}) {
      CAPTURE(shards);
      const auto mean_of = [&](const Given& own, const Array& w) { return value(c.loss(own, w)); };
      const PmapOptions options{.mesh = mesh_of({shards, 1}),
                                .in = {sharded("batch"), sharded("batch")},
                                .out = {replicated, sharded("batch")}};
      const auto step = pmap(
          [&](const Given& own, const Array& w) {
            const auto of_first = [&](const Array& x) {
              Given moved = own;
              moved[c.operands[0]] = x;
              return mean_of(moved, w);
            };
            return value_and_grad(of_first)(own.at(c.operands[0]));
          },
          options);
      const auto [v, g] = step(rows, weight);
      CHECK_MESSAGE(rows_near(v, mean, 1e-12), c.name);
      CHECK_MESSAGE(rows_near(g, slope, 1e-12), c.name);
    }
  }
}

TEST_CASE("every loss over microbatches is that of one batch, but for losses that compare rows") {
  for (const Case& c : cases()) {
    if (c.compares_rows) continue;
    CAPTURE(c.name);
    const Given rows = with_rows(c.operands, 4, {not_a_number, 99});
    const Array weight = weights_of(c, 4);
    const auto sums_of = [&](const std::pair<Given, Array>& part) {
      const Weighted own = c.loss(part.first, part.second);
      return Weighted{psum(own.sum, {microbatch_axis}), psum(own.weight, {microbatch_axis})};
    };
    const Weighted sums = sequential_map(sums_of, std::pair(rows, weight), {microbatch_axis, 4});
    const Weighted whole = c.loss(rows, weight);
    CHECK_MESSAGE(rows_near(sums.sum, whole.sum, 1e-12), c.name);
    CHECK_MESSAGE(rows_near(sums.weight, whole.weight, 1e-12), c.name);
  }
}

TEST_CASE("every loss in vmap, remat and jit is the plain one") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const Given rows = with_rows(c.operands, 0, {});
    const Array weight = weights_of(c, 0);
    const Tree plain = loss_and_gradients(c, rows, weight);
    const auto run = [&](const Given& own) { return loss_and_gradients(c, own, weight); };
    check_rows_near(jit(run)(rows), plain, 1e-12, c.name + " in jit");
    const auto remade = remat([&](const Given& own) { return c.loss(own, weight).sum; });
    const std::string& first = c.operands[0];
    const auto of_first = [&](const Array& x) {
      Given moved = rows;
      moved[first] = x;
      return remade(moved);
    };
    CHECK_MESSAGE(rows_near(grad(of_first)(rows.at(first)), plain.items()[2].at(first).array(), 1e-12), c.name);
    Given twice = rows;
    for (auto& [name, x] : twice) x = stack({x, is_float(x.dtype()) && name == first ? x * 0.5 : x}, 0);
    const Tree batched = vmap(run)(twice);
    for (std::int64_t i = 0; i < 2; ++i) {
      const auto own = [&](const Array& x) { return x[i]; };
      check_rows_near(map(own, batched), run(from_tree<Given>(map(own, to_tree(twice)))), 1e-11, c.name + " in vmap");
    }
  }
}

TEST_CASE("every loss of float16 and bfloat16 operands is that of the same numbers in float32, and at least float32") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    for (const DType dtype : {float16, bfloat16}) {
      CAPTURE(name(dtype));
      const Given narrow = in_dtype(with_rows(c.operands, 0, {}), dtype);
      const Array weight = convert(weights_of(c, 0), float32);
      const Weighted given = c.loss(narrow, weight), expected = c.loss(in_dtype(narrow, float32), weight);
      CHECK(given.sum.dtype() == float32);
      CHECK_MESSAGE(rows_near(given.sum, expected.sum, 1e-5), c.name);
      const Array slope = loss_and_gradients(c, narrow, weight).items()[2].at(c.operands[0]).array();
      CHECK(slope.dtype() == dtype);
      CHECK_MESSAGE(all(is_finite(slope)).item<bool>(), c.name);
    }
  }
}

TEST_CASE("gradients stay finite at extreme logits, scores and errors") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const std::string& first = c.operands[0];
    const bool any_number = first == "x" || first == "a" || first == "spoken";
    if (!any_number || c.name == "poisson/log_rate") continue;  // exp(1e15) is infinite, and so is its slope
    for (const double size : {0.0, 1e4, 1e15}) {
      CAPTURE(size);
      Given rows = in_dtype(with_rows(c.operands, 0, {}), float32);
      rows[first] = rows.at(first) * size;
      const Array weight = convert(weights_of(c, 0), float32);
      const Array slope = loss_and_gradients(c, rows, weight).items()[2].at(first).array();
      CHECK_MESSAGE(all(is_finite(slope)).item<bool>(), c.name << " at " << size);
    }
  }
}

TEST_CASE("every metric's sums are exact: over shards, over batches, and whatever rows of weight 0 hold") {
  const Array importance = stored().given.at("importance");
  for (const MetricCase& c : metric_cases()) {
    CAPTURE(c.name);
    const Array weight = concatenate({importance, zeros({8}, float64)}, 0);
    const auto sums_of = [&](const Given& rows) { return c.sums(rows, weight); };
    const bool weighs = !c.name.ends_with("_correlation");  // which stand in the table without weights
    const Given padded = with_rows(c.operands, 8, weighs ? Filling{not_a_number, 99} : Filling{0.5, 0});
    const Weighted whole = sums_of(padded);
    CHECK_MESSAGE(fingerprint(to_tree(sums_of(with_rows(c.operands, 8, {0.5, 0})))) == fingerprint(to_tree(whole)),
                  c.name);
    const Array expected = c.value(whole);
    // Integer weights: counts are exact. Sums of products are not.
    const bool counts = c.operands[0] != "found";
    for (const std::int64_t shards : {1, 2, 4}) {
      CAPTURE(shards);
      const auto over = [&](auto f) {
        return pmap([&, f](const Given& own, const Array& w) { return f(c.sums(own, w)); },
                    {.mesh = mesh_of({shards, 1}), .in = {sharded("batch"), sharded("batch")}, .out = {replicated}})(
            padded, weight);
      };
      CHECK_MESSAGE(rows_near(over(c.value), expected, counts ? 0 : 1e-12), c.name);
      const Weighted total = over([](const Weighted& own) {
        return Weighted{psum(own.sum, own.sum.type().varying), psum(own.weight, own.weight.type().varying)};
      });
      CHECK_MESSAGE(rows_near(total.sum, whole.sum, counts ? 0 : 1e-12), c.name);
      CHECK_MESSAGE(rows_near(total.weight, whole.weight, 0), c.name);
    }
    const auto part = [&](std::int64_t from, std::int64_t to) {
      Given rows;
      for (const std::string& name : c.operands) rows[name] = slice_in_dim(padded.at(name), from, to, 0);
      return c.sums(rows, slice_in_dim(weight, from, to, 0));
    };
    const Weighted both = merged(part(0, 17), part(17, 48));
    CHECK_MESSAGE(rows_near(both.sum, whole.sum, counts ? 0 : 1e-12), c.name);
    CHECK_MESSAGE(rows_near(c.value(both), expected, 1e-6), c.name);  // of whole, some are quotients in float32
  }
}

TEST_CASE("a NaN that counts makes every metric of numbers NaN") {
  for (const MetricCase& c : metric_cases()) {
    if (c.operands[0] == "scores" && c.name != "mean_iou") continue;  // argmax takes a NaN for the largest
    CAPTURE(c.name);
    Given rows = with_rows(c.operands, 1, {not_a_number, 0});
    const Weighted sums = c.sums(rows, ones({41}, float64));
    CHECK_MESSAGE(any(isnan(c.value(sums))).item<bool>(), c.name);
  }
}

}  // namespace lockstep::tests::losses
