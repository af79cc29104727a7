#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/nn/parallel/cut_layers.h"
#include "tests/support/expect_error.h"

// A mixture whose experts are cut along an axis is that of one device with all experts.
using namespace lockstep;
using tests::check_arrays;
using tests::check_trees;
using tests::drawn;
using tests::expect_error;
using tests::Replicas;

namespace {

constexpr std::int64_t token_rows = 8, tokens = 6, token_features = 5, experts = 8;

struct Parameters {
  Array router, in, out;
};
LOCKSTEP_TREE(Parameters, router, in, out);
struct Expert {
  Array in, out;
};
LOCKSTEP_TREE(Expert, in, out);

Parameters parameters(DType dtype) {
  return {drawn(1, {token_features, experts}, dtype), drawn(2, {experts, token_features, 7}, dtype),
          drawn(3, {experts, 7, token_features}, dtype)};
}
Array some_tokens(DType dtype) { return drawn(4, {token_rows, tokens, token_features}, dtype); }
Array mask_of(const Array& x) { return greater(iota({x.dim(0), tokens}, 1), 0); }

Array expert_of(const Expert& e, const Array& x) { return matmul(tanh(matmul(x, e.in)), e.out); }

MixtureResult mixed(const Parameters& p, const Array& x, MixtureOptions options, bool masked = false) {
  if (masked) options.mask = mask_of(x);
  return mixture_of_experts(x, matmul(x, p.router), Expert{p.in, p.out}, expert_of, options);
}

/// A number that depends on all that a mixture gives.
Array mixture_loss(const MixtureResult& m) { return sum(square(m.y)) + sum(m.load_balance); }

const Layout cut = sharded("expert");
PmapOptions along_experts(const Replicas& replicas, std::vector<LeafLayouts> out) {
  return {.mesh = tests::mesh_along("expert", replicas), .in = {replicated, cut, cut, cut}, .out = std::move(out)};
}

}  // namespace

TEST_CASE("with room for all, a mixture is the sum over each token's best experts by their probabilities") {
  const Parameters p = parameters(float64);
  const Array x = some_tokens(float64);
  for (const std::int64_t k : {1, 2, 3, 8}) {
    const Array probabilities = softmax(matmul(x, p.router), -1);
    const auto [best, chosen] = top_k(probabilities, k);
    const Array chosen_gates = k == 1 ? best : best / sum(best, Axes{-1}, true);
    const Array gates = sum(one_hot(chosen, experts, float64) * expand_dims(chosen_gates, -1), Axes{2});
    const Array all = vmap([&](const Expert& e) { return expert_of(e, x); })(Expert{p.in, p.out});
    const MixtureResult m = mixed(p, x, {.top_k = k, .capacity_factor = 100});
    check_arrays(m.y, einsum("nte,entf->ntf", {gates, all}));
    check_arrays(m.dropped, zeros({token_rows}, float64));
  }
}

TEST_CASE("experts that have no room leave tokens out, second choices first, and masked tokens take no room") {
  const Array x = ones({1, 4, 2}), logits = broadcast_to(array({2.0F, 1.0F, 0.0F}), {1, 4, 3});
  const auto same = [](const Array& w, const Array& v) { return v * w; };
  const Array weights = array({1.0F, 10.0F, 100.0F});
  const auto with = [&](const MixtureOptions& options) {
    return mixture_of_experts(x, logits, weights, same, options);
  };
  const MixtureResult two = with({.top_k = 1, .capacity_factor = 1.5});  // room for 2 of 4 tokens
  const float p = softmax(array({2.0F, 1.0F, 0.0F}), -1).to_vector<float>()[0];
  CHECK(two.y.to_vector<float>() == std::vector<float>{p, p, p, p, 0, 0, 0, 0});
  CHECK(two.dropped.item<float>() == 0.5F);
  CHECK(two.load_balance.item<float>() == doctest::Approx(3 * p));
  const MixtureResult masked =
      with({.top_k = 1, .capacity_factor = 1.5, .mask = array(std::vector<bool>{false, true, true, true}, {1, 4})});
  CHECK(masked.y.to_vector<float>() == std::vector<float>{0, 0, p, p, p, p, 0, 0});
  CHECK(masked.dropped.item<float>() == doctest::Approx(1.0 / 3));
  const MixtureResult none = with({.mask = zeros({1, 4}, DType::bool_)});
  CHECK(max(abs(none.y)).item<float>() == 0);
  CHECK(none.dropped.item<float>() == 0);
  CHECK(none.load_balance.item<float>() == 0);
}

TEST_CASE("nothing that a masked token and its logits hold reaches a value or a gradient") {
  const Parameters p = parameters(float64);
  const Array x = some_tokens(float64), counts = expand_dims(mask_of(x), -1);
  const auto with = [&](double held) {
    const auto loss = [&](const Parameters& q, const Array& v) {
      const Array logits = where(counts, matmul(v, q.router), held);
      return mixture_loss(mixture_of_experts(where(counts, v, held), logits, Expert{q.in, q.out}, expert_of,
                                             {.capacity_factor = 1, .mask = mask_of(v)}));
    };
    return value_and_grad(loss)(p, x);
  };
  CHECK(fingerprint(to_tree(with(NAN))) == fingerprint(to_tree(with(3))));
}

TEST_CASE("values and gradients over cut experts are those of one device") {
  for (const DType dtype : {float32, float64}) {
    const Parameters p = parameters(dtype);
    const Array x = some_tokens(dtype);
    for (const std::int64_t k : {1, 2}) {
      for (const bool masked : {false, true}) {
        const MixtureOptions whole{.top_k = k, .capacity_factor = 1};
        const MixtureOptions parts{.axis = "expert", .top_k = k, .capacity_factor = 1};
        const MixtureResult expected = mixed(p, x, whole, masked);
        const auto slopes = grad([&](const std::pair<Parameters, Array>& v) {
          return mixture_loss(mixed(v.first, v.second, whole, masked));
        })(std::pair(p, x));
        for (const Replicas& replicas : tests::cuts) {
          CAPTURE(replicas.shards);
          CAPTURE(k);
          CAPTURE(masked);
          const auto forward = [&](const Array& router, const Array& in, const Array& out, const Array& block) {
            return mixed({router, in, out}, block, parts, masked);
          };
          const auto mapped = pmap(forward, along_experts(replicas, {cut}));
          check_trees(to_tree(jit(mapped)(p.router, p.in, p.out, x)), to_tree(expected));
          const auto of_map = [&](const std::pair<Parameters, Array>& v) {
            return mixture_loss(mapped(v.first.router, v.first.in, v.first.out, v.second));
          };
          check_trees(to_tree(grad(of_map)(std::pair(p, x))), to_tree(slopes));
          const auto inside = [&](const Array& router, const Array& in, const Array& out, const Array& block) {
            const auto loss = [&](const Parameters& q) {
              return psum(mixture_loss(remat([&](const Parameters& r) { return mixed(r, block, parts, masked); })(q)),
                          {"expert"});
            };
            const Parameters g = grad(loss)(Parameters{router, in, out});
            return std::tuple(g.router, g.in, g.out);
          };
          const auto [router, in, out] =
              jit(pmap(inside, along_experts(replicas, {replicated, cut, cut})))(p.router, p.in, p.out, x);
          check_trees(to_tree(Parameters{router, in, out}), to_tree(slopes.first));
        }
      }
    }
  }
}

TEST_CASE("layers of mixtures in a scan, a batch of mixtures, and the experts as a named batch") {
  const Parameters p = parameters(float64);
  const Array x = some_tokens(float64);
  const MixtureOptions whole{.capacity_factor = 1}, parts{.axis = "expert", .capacity_factor = 1};
  const auto layers = [&](const Parameters& q, const Array& h, const MixtureOptions& options) {
    const auto layer = [&](const Array& v) { return std::pair(v + mixed(q, v, options).y, Tree()); };
    return scan(layer, h, {.length = 3}).first;
  };
  const auto in_scan = [&](const Array& router, const Array& in, const Array& out, const Array& block) {
    return layers({router, in, out}, block, parts);
  };
  check_arrays(pmap(in_scan, along_experts({4, 2}, {cut}))(p.router, p.in, p.out, x), layers(p, x, whole));

  const Array expected = mixed(p, x, whole).y;
  const auto batched = [&](const Array& router, const Array& in, const Array& out, const Array& block) {
    const auto row = [&](const Array& v) { return mixed({router, in, out}, expand_dims(v, 0), parts).y; };
    return squeeze(vmap(row)(block), Axes{1});
  };
  check_arrays(pmap(batched, along_experts({4, 2}, {cut}))(p.router, p.in, p.out, x), expected);

  const auto one = [&](const Expert& e, const Array& block) { return mixed({p.router, e.in, e.out}, block, parts).y; };
  const auto blocks = [](const Array& v) {
    std::vector<std::int64_t> shape = v.shape().to_vector();
    shape[0] /= 4;
    shape.insert(shape.begin(), 4);
    return reshape(v, shape);
  };
  const Array named = vmap(one, {.axis_name = "expert"})(Expert{blocks(p.in), blocks(p.out)}, blocks(x));
  check_arrays(reshape(named, x.shape().to_vector()), expected);
}

TEST_CASE("what a mixture refuses") {
  const Parameters p = parameters(float32);
  const Array x = some_tokens(float32);
  expect_error<ValueError>([&] { mixed(p, x, {.top_k = 9}); }, "top_k is 9", "1 to 8");
  expect_error<ValueError>([&] { mixed(p, x, {.capacity_factor = 0}); }, "capacity_factor is 0", "above 0");
  expect_error<ShapeError>(
      [&] {
        mixed(p, x, {.mask = ones({8, 5}, DType::bool_)});
      },
      "mask is bool[8,5]", "bool[8, 6]");
  expect_error<ShapeError>(
      [&] {
        mixture_of_experts(x[0], matmul(x, p.router), Expert{p.in, p.out}, expert_of);
      },
      "tokens f32[6,5]", "[N, T, features]");
  expect_error<ShapeError>(
      [&] {
        mixture_of_experts(x, matmul(x, p.router), Expert{p.in, p.out},
                           [](const Expert&, const Array& v) { return sum(v, Axes{0}); });
      },
      "one row for each");
  const auto on_four = [&](const Layout& of_x, const Layout& of_experts) {
    return [&, of_x, of_experts] {
      const auto body = [](const Array& router, const Array& in, const Array& out, const Array& block) {
        return mixed({router, in, out}, block, {.axis = "expert"}).y;
      };
      pmap(body, {.mesh = tests::mesh_along("expert", {4, 1}),
                  .in = {replicated, of_experts, of_experts, of_x},
                  .out = {cut}})(p.router, p.in, p.out, x);
    };
  };
  expect_error<MeshError>(on_four(replicated, cut), "the batch, f32[8,6,5], is the same on all", "\"expert\"");
  expect_error<ShapeError>(on_four(cut, replicated), "'in' is f32[8,5,7] on each of 4 replicas", "8 experts",
                           "dimension 0");
}
