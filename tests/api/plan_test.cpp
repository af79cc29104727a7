#include <algorithm>
#include <numeric>
#include <string>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/skip.h"

// What a plan says that a call costs.
using namespace lockstep;

namespace {

bool plan_holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// All ops of that name, whatever the backend.
OpCost cost_of(const Plan& plan, const std::string& op) {
  OpCost sum;
  sum.op = op;
  for (const OpCost& cost : plan.ops) {
    if (cost.op != op) continue;
    sum.backend = cost.backend;
    sum.runs += cost.runs;
    sum.flops += cost.flops;
    sum.bytes += cost.bytes;
  }
  return sum;
}

const Mesh& mesh_of_four() {
  static const Mesh mesh({{"batch", 4}}, devices("cpu:0-1"));
  return mesh;
}

}  // namespace

TEST_CASE("a plan counts arithmetic operations and bytes by op and backend") {
  const Function f =
      trace_function([](const Array& x, const Array& w) { return tanh(matmul(x, w)); }, ones({8, 16}), ones({16, 4}));
  const Plan plan = f.plan();
  const OpCost product = cost_of(plan, "dot_general");
  CHECK(product.runs == 1);
  CHECK_FALSE(product.backend.empty());
  CHECK(product.flops == 2. * 8 * 16 * 4);
  CHECK(product.bytes == 4. * (8 * 16 + 16 * 4 + 8 * 4));
  CHECK(cost_of(plan, "tanh").flops == 8 * 4);
  CHECK(cost_of(plan, "tanh").bytes == 4. * (2 * 8 * 4));
  CHECK(plan.flops == product.flops + 32);
  CHECK(plan.bytes == product.bytes + 256);
  CHECK(plan.ops.front().op == "dot_general");
  CHECK(plan.result_bytes == 8 * 4 * 4);
  CHECK_FALSE(plan.has_while_loops);
  CHECK(plan_holds(plan.text, "  # 1024 flops, 896 B\n"));
  CHECK(plan_holds(plan.text, "total 1056 flops, 1152 B, results 128 B\n"));
  CHECK(plan_holds(plan.text, product.backend + " dot_general x 1  # 1024 flops, 896 B\n"));
}

TEST_CASE("large element-wise work counts all its tiles; what is broadcast is read once") {
  const std::int64_t n = 100000;
  const Plan plan = trace_function([](const Array& x) { return x * 2.f; }, ones({n})).plan();
  const OpCost cost = cost_of(plan, "mul");
  CHECK(cost.runs == 7);
  CHECK(cost.flops == static_cast<double>(n));
  CHECK(cost.bytes == doctest::Approx(8. * static_cast<double>(n)).epsilon(1e-3));
}

TEST_CASE("regions count for each shard, collectives by op and size") {
  const auto shard = [](const Array& x) { return psum(sum(sin(x), Axes{0}), {"batch"}); };
  const auto f = [&](const Array& x) {
    return pmap(shard, {.mesh = mesh_of_four(), .in = {sharded("batch")}, .out = {replicated}})(x);
  };
  const Plan plan = trace_function(f, ones({8, 6})).plan();
  CHECK(cost_of(plan, "sin").runs == 4);
  CHECK(cost_of(plan, "sin").flops == 8 * 6);
  CHECK(cost_of(plan, "reduce_sum").flops == 8 * 6);
  REQUIRE(plan.collective_costs.size() == 1);
  CHECK(plan.collective_costs[0].op == "psum");
  CHECK(plan.collective_costs[0].bytes == 6 * 4);
  CHECK(plan.collective_costs[0].times == 1);
  CHECK(cost_of(plan, "add").flops == 3 * 6);  // the sum over the shards
  CHECK(plan_holds(plan.text, "psum of 24 B x 1\n"));
}

TEST_CASE("a scan counts its steps, a while_loop one iteration, a cond its dearest branch") {
  const auto scanned = [](const Array& x) {
    return scan([](const Array& c, const Array& a) { return std::pair(c + sin(a), a); }, zeros({3}), x).first;
  };
  const Plan of_scan = trace_function(scanned, ones({5, 3})).plan();
  CHECK(cost_of(of_scan, "sin").runs == 5);
  CHECK(cost_of(of_scan, "sin").flops == 15);
  CHECK(cost_of(of_scan, "scan").flops == 0);
  CHECK_FALSE(of_scan.has_while_loops);

  const auto looped = [](const Array& x) {
    return while_loop([](const Array& c) { return sum(c) < 100; }, [](const Array& c) { return cos(c) + c; }, x);
  };
  const Plan of_loop = trace_function(looped, ones({3})).plan();
  CHECK(cost_of(of_loop, "cos").flops == 3);
  CHECK(of_loop.has_while_loops);
  CHECK(plan_holds(of_loop.text, " or more, results "));

  const auto predicate = [](const Array& x) { return sum(x) > 0; };
  const auto dear = [](const Array& x) { return tanh(exp(x)); };
  const auto cheap = [](const Array& x) { return sin(x); };
  const auto chosen = [&](const Array& x) { return cond(predicate(x), dear, cheap, x); };
  const auto flops = [](const auto& f) { return trace_function(f, ones({3})).plan().flops; };
  CHECK(flops(dear) == 6);
  CHECK(flops(chosen) == flops(predicate) + 1 + flops(dear));  // The predicate becomes an index.
  CHECK(cost_of(trace_function(chosen, ones({3})).plan(), "sin").runs == 0);
}

TEST_CASE("ops that run as one loop are one row, which names them") {
  const auto f = [](const Array& x) { return sum(tanh(x * 2.f) + x * x); };
  const Plan plan = trace_function(f, ones({4, 3})).plan();
  CHECK(plan.flops == trace_function(f, ones({4, 3})).plan().flops);
  const bool is_fused =
      std::any_of(plan.ops.begin(), plan.ops.end(), [](const OpCost& cost) { return cost.op.rfind("fused", 0) == 0; });
  if (!is_fused) return tests::skip("no loops are made for this processor");
  const OpCost loop = cost_of(plan, "fused(mul, tanh, add, reduce_sum)");
  CHECK(loop.runs == 1);
  CHECK(loop.flops == 5 * 12);
  CHECK(loop.bytes == (12 + 1) * 4);
  CHECK(cost_of(plan, "tanh").runs == 0);
}

TEST_CASE("collectives inside a scan are counted as often as it runs") {
  const auto shard = [](const Array& x) {
    const auto step = [](const Array& c, const Array& a) { return std::pair(c + psum(a, {"batch"}), c); };
    return scan(step, zeros({2}), x).first;
  };
  const auto f = [&](const Array& x) {
    return pmap(shard, {.mesh = mesh_of_four(), .in = {sharded("batch", 1)}, .out = {replicated}})(x);
  };
  const Plan plan = trace_function(f, ones({3, 8})).plan();
  REQUIRE(plan.collective_costs.size() == 1);
  CHECK(plan.collective_costs[0].times == 3);
  CHECK(plan.collective_costs[0].bytes == 8);
}

TEST_CASE("the totals are those of the ops") {
  const auto loss = [](const Array& w, const Array& x) { return mean(square(tanh(matmul(x, w)))); };
  const Plan plan = trace_function([&](const Array& w, const Array& x) { return value_and_grad(loss)(w, x); },
                                   ones({6, 2}), ones({5, 6}))
                        .plan();
  const auto total = [&](double OpCost::*part) {
    return std::accumulate(plan.ops.begin(), plan.ops.end(), 0.,
                           [part](double sum, const OpCost& cost) { return sum + cost.*part; });
  };
  CHECK(plan.flops == total(&OpCost::flops));
  CHECK(plan.bytes == total(&OpCost::bytes));
  CHECK(cost_of(plan, "dot_general").flops == 2 * 2. * 5 * 6 * 2);
}
