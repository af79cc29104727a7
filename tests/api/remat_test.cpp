#include <sstream>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/function.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/random.h>
#include <lockstep/remat.h>

#include "tests/support/array_values.h"
#include "tests/support/counted.h"
#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"

// Rematerialized functions have the values and derivatives of the functions themselves, and keep what the policy says.
using namespace lockstep;
using tests::check_equal;
using tests::check_same_bits;
using tests::counted;
using tests::expect_error;

namespace {

std::vector<CheckpointPolicy> all_policies() {
  namespace policies = checkpoint_policies;
  return {policies::nothing_saveable,
          policies::everything_saveable,
          policies::dots_saveable,
          policies::dots_with_no_batch_dims_saveable,
          policies::save_only_these_names({"hidden"}),
          policies::save_anything_except_these_names({"hidden"})};
}

/// Two layers with a name between them.
Array block(const Array& w, const Array& x) {
  const Array h = checkpoint_name(tanh(matmul(x, w)), "hidden");
  return sin(matmul(h, transpose(w))) + x;
}

template <class Block>
auto two_blocks_loss(const Block& f) {
  return [f](const Array& w, const Array& x) { return sum(square(f(w, f(w, x)))); };
}

/// How often a text stands in a printed program.
std::size_t count_in_program(const Function& f, const std::string& part) {
  const std::string text = f.to_string();
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// How many results the first checkpoint of a gradient has: the value and what is kept.
std::size_t kept_results(const Function& f) {
  std::istringstream stream(f.to_string());
  for (std::string line; std::getline(stream, line);) {
    const std::size_t at = line.find("= checkpoint[");
    if (at == std::string::npos) continue;
    std::size_t results = 0;
    for (std::size_t i = 0; i < at; ++i) results += line[i] == ':' ? 1U : 0U;
    return results;
  }
  return 0;
}

}  // namespace

TEST_CASE("values and derivatives are those of the function itself") {
  const Array w = counted({3, 4}), x = counted({2, 3});
  const auto plain = two_blocks_loss(block);
  const auto hessian_product = [&](const auto& loss) {
    return grad([&](const Array& v) { return sum(grad([&](const Array& u) { return loss(u, x); })(v) * cos(v)); })(w);
  };
  for (const CheckpointPolicy& policy : all_policies()) {
    CAPTURE(policy.name);
    const auto loss = two_blocks_loss(remat(block, policy));
    check_equal(loss(w, x), plain(w, x));
    check_equal(grad<0>(loss)(w, x), grad<0>(plain)(w, x));
    check_equal(grad<1>(loss)(w, x), grad<1>(plain)(w, x));
    check_equal(jit([&](const Array& a, const Array& b) { return grad<0>(loss)(a, b); })(w, x), grad<0>(plain)(w, x));
    check_equal(hessian_product(loss), hessian_product(plain));
    const auto tangents = std::tuple(cos(w), sin(x * 3));
    check_equal(jvp(loss, std::tuple(w, x), tangents).second, jvp(plain, std::tuple(w, x), tangents).second);
    const auto [y, forth] = linearize(loss, w, x);
    check_equal(forth(cos(w), x), jvp(plain, std::tuple(w, x), std::tuple(cos(w), x)).second);
    const Array ws = stack(std::vector<Array>{w, w * 2, w + 1}, 0);
    const VmapOptions axes{.in_axes = {0, std::nullopt}};
    const auto per_example = [&](const auto& f) {
      return vmap([&](const Array& a, const Array& b) { return grad<1>(f)(a, b); }, axes)(ws, x);
    };
    check_equal(per_example(loss), per_example(plain));
    const auto of_batch = [&](const auto& f) {
      return grad<1>([&](const Array& a, const Array& b) { return sum(vmap(f, axes)(a, b)); })(ws, x);
    };
    check_equal(of_batch(loss), of_batch(plain));
  }
}

TEST_CASE("a policy says what is kept") {
  const Array w = counted({3, 4}), x = counted({2, 3});
  const auto kept = [&](const auto& f, const CheckpointPolicy& policy) {
    const auto loss = [&](const Array& a) { return sum(square(remat(f, policy)(a, x))); };
    return kept_results(trace_function([&](const Array& a) { return grad(loss)(a); }, w)) - 1;
  };
  namespace policies = checkpoint_policies;
  CHECK(kept(block, policies::nothing_saveable) == 0);
  CHECK(kept(block, policies::dots_saveable) == 2);
  CHECK(kept(block, policies::dots_with_no_batch_dims_saveable) == 2);
  CHECK(kept(block, policies::save_only_these_names({"hidden"})) == 1);
  CHECK(kept(block, policies::save_only_these_names({"other"})) == 0);
  CHECK(kept(block, policies::everything_saveable) > 2);
  CHECK(kept(block, policies::save_anything_except_these_names({"other"})) ==
        kept(block, policies::everything_saveable));
  const auto batched = [](const Array& a, const Array& b) {
    return tanh(matmul(expand_dims(b, 0), expand_dims(a, 0)));
  };
  CHECK(kept(batched, policies::dots_saveable) == 1);
  CHECK(kept(batched, policies::dots_with_no_batch_dims_saveable) == 0);
  const auto named = [](const Array& a, const Array& b) { return sin(checkpoint_name(tanh(matmul(b, a)), "h")); };
  // The slopes of sin and tanh; neither tanh nor its name.
  CHECK(kept(named, policies::save_anything_except_these_names({"h"})) == 2);
  CHECK(kept(named, policies::save_only_these_names({"h"})) == 1);
}

TEST_CASE("what is not kept is computed again, in the backward pass") {
  const Array w = counted({3, 3}), x = counted({2, 3});
  const auto gradient = [&](const CheckpointPolicy& policy) {
    const auto f = [](const Array& a, const Array& b) { return sum(exp(sin(matmul(b, a)))); };
    return trace_function(
        [&, f](const Array& a) { return value_and_grad([&](const Array& v) { return remat(f, policy)(v, x); })(a); },
        w);
  };
  const Function again = gradient(checkpoint_policies::nothing_saveable);
  const Function kept = gradient(checkpoint_policies::everything_saveable);
  CHECK(count_in_program(again, " exp ") == 2);
  CHECK(count_in_program(kept, " exp ") == 1);
  CHECK(count_in_program(again, " dot_general[") == 3);  // forward, forward again, the gradient
  CHECK(count_in_program(kept, " dot_general[") == 2);
  check_same_bits(again({w})[0], kept({w})[0]);
  // Compiled, too: the second product is not merged with the first.
  const auto calls = [](const Function& f) {
    std::int64_t runs = 0;
    for (const OpCost& cost : f.plan().ops) runs += cost.op == "dot_general" ? cost.runs : 0;
    return runs;
  };
  CHECK(calls(again) == 3);
  CHECK(calls(kept) == 2);
}

TEST_CASE("collectives run once, whatever the policy") {
  const Array w = counted({3}), x = counted({8, 3});
  const auto body = [](const auto& wrap) {
    return [wrap](const Array& a, const Array& b) {
      const auto f = wrap([](const Array& u, const Array& v) {
        const Array mean_row = psum(sum(tanh(v * u), Axes{0}), {"batch"}) / 8;
        return psum(sum(square(sin(mean_row) - tanh(v * u))), {"batch"});
      });
      return grad([&](const Array& u) { return f(u, b); })(a);
    };
  };
  const auto step = [&](const auto& wrap) {
    return pmap(body(wrap),
                {.mesh = tests::mesh_of({4, 2}), .in = {replicated, sharded("batch")}, .out = {replicated}});
  };
  const auto plain = step([](const auto& f) { return f; });
  const auto collectives = [&](const auto& f) {
    return trace_function([&](const Array& a, const Array& b) { return f(a, b); }, w, x).plan().collectives;
  };
  for (const CheckpointPolicy& policy : all_policies()) {
    CAPTURE(policy.name);
    const auto checkpointed = step([&](const auto& f) { return remat(f, policy); });
    check_equal(checkpointed(w, x), plain(w, x));
    CHECK(collectives(checkpointed) == collectives(plain));
    CHECK(count_in_program(trace_function([&](const Array& a, const Array& b) { return checkpointed(a, b); }, w, x),
                           "psum[") ==
          count_in_program(trace_function([&](const Array& a, const Array& b) { return plain(a, b); }, w, x), "psum["));
  }
}

TEST_CASE("random draws are the same again") {
  const Array key = random::key(11), x = counted({4, 3});
  const auto dropped = [](const Array& k, const Array& v) {
    return exp(where(random::bernoulli(k, 0.5, v.shape()), sin(v), 0.0));
  };
  const auto gradient = [&](const auto& f) { return grad([&](const Array& v) { return sum(square(f(key, v))); })(x); };
  const auto again = remat(dropped);
  check_same_bits(gradient(again), gradient(dropped));
  const Function traced = trace_function(
      [&](const Array& v) { return grad([&](const Array& u) { return sum(square(again(key, u))); })(v); }, x);
  CHECK(count_in_program(traced, " random_bits[") == 2);
}

TEST_CASE("nested, and over a named batch") {
  const Array w = counted({3, 4}), x = counted({2, 3});
  const auto inner = remat(block, checkpoint_policies::dots_saveable);
  const auto outer = remat([&](const Array& a, const Array& b) { return inner(a, inner(a, b)); });
  const auto loss = [&](const Array& a) { return sum(square(outer(a, x))); };
  const auto plain = [&](const Array& a) { return sum(square(block(a, block(a, x)))); };
  check_equal(grad(loss)(w), grad(plain)(w));
  const auto centered = [](const Array& v) { return tanh(v) - pmean(tanh(v), {"i"}); };
  const auto over_batch = [&](const auto& f) {
    return grad([&](const Array& all) {
      return sum(pow(vmap([&](const Array& v) { return f(v); }, {.axis_name = "i"})(all), 3));
    })(x);
  };
  check_equal(over_batch(remat(centered)), over_batch(centered));
  const auto shared = [](const Array&) { return psum(pvary(ones({2}, float64), {"i"}), {"i"}); };
  check_equal(vmap(remat(shared), {.axis_name = "i"})(x), vmap(shared, {.axis_name = "i"})(x));
}

TEST_CASE("integers and structures pass through, captured arrays too") {
  const Array c = counted({3});
  const auto f = [&](const std::map<std::string, Array>& p, int times) {
    return std::pair(p.at("x") * c * static_cast<double>(times), p.at("i") + 1);
  };
  const auto g = remat(f);
  const std::map<std::string, Array> p = {{"x", counted({3}) + 2}, {"i", arange(3)}};
  check_same_bits(g(p, 3).first, f(p, 3).first);
  check_same_bits(g(p, 3).second, f(p, 3).second);
  const auto slope = [&](const auto& h) {
    return grad([&](const Array& v) {
      auto q = p;
      q["x"] = sin(v);
      return sum(square(h(q, 2).first));
    })(c);
  };
  check_equal(slope(g), slope(f));
}

TEST_CASE("policies that there are not") {
  expect_error<ValueError>([] { remat([](const Array& v) { return v * 2; }, {"everything"})(ones({2})); },
                           "policy everything", "nothing_saveable", "save_only_these_names");
}
