#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/exchange.h>
#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"

using namespace lockstep;
using exchange::KeyMap;
using exchange::WeightForm;
using tests::expect_error;

namespace {

Tree variables() { return Tree::dict({{"dense", Tree::dict({{"kernel", zeros({2, 3})}, {"bias", zeros({3})}})}}); }

std::map<std::string, Array> linear() {
  return {{"fc.weight", array({{1.0f, 2.0f}, {3.0f, 4.0f}, {5.0f, 6.0f}})}, {"fc.bias", array({7.0f, 8.0f, 9.0f})}};
}

}  // namespace

TEST_CASE("a linear layer of PyTorch's comes and goes") {
  const KeyMap map = exchange::torch_module("fc", "dense");
  const auto [trainable, state] = exchange::import_weights(variables(), Tree(), linear(), map);
  CHECK(trainable.at("dense/kernel").array().to_vector<float>() == std::vector<float>{1, 3, 5, 2, 4, 6});
  CHECK(trainable.at("dense/bias").array().to_vector<float>() == std::vector<float>{7, 8, 9});
  const auto back = exchange::export_weights(trainable, state, linear(), map);
  CHECK(back.at("fc.weight").to_bytes() == linear().at("fc.weight").to_bytes());
}

TEST_CASE("parts of tensors and of variables") {
  // One tensor [6, 2] for three kernels [2, 2], and three tensors for one kernel [2, 6].
  const Array fused = reshape(arange(12, float32), {6, 2});
  const Tree three = Tree::dict({{"q", zeros({2, 2})}, {"k", zeros({2, 2})}, {"v", zeros({2, 2})}});
  KeyMap split, join;
  std::map<std::string, Array> parts;
  std::int64_t i = 0;
  for (const std::string name : {"q", "k", "v"}) {
    split.push_back({.name = "in_proj", .path = name, .form = WeightForm::transposed, .of_tensor = {i, 3}});
    join.push_back({.name = name, .path = "qkv", .form = WeightForm::transposed, .of_variable = {i, 3}});
    parts[name] = slice_in_dim(fused, 2 * i, 2 * i + 2, 0);
    ++i;
  }
  const auto [apart, none] = exchange::import_weights(three, Tree(), {{"in_proj", fused}}, split);
  CHECK(apart.at("k").array().to_vector<float>() == std::vector<float>{4, 6, 5, 7});
  CHECK(exchange::export_weights(apart, none, {{"in_proj", fused}}, split).at("in_proj").to_bytes() ==
        fused.to_bytes());

  const Tree one = Tree::dict({{"qkv", zeros({2, 6})}});
  const auto [whole, state] = exchange::import_weights(one, Tree(), parts, join);
  CHECK(whole.at("qkv").array().to_bytes() == transpose(fused).to_bytes());
  CHECK(exchange::export_weights(whole, state, parts, join).at("v").to_bytes() == parts.at("v").to_bytes());
  parts.erase("v");
  expect_error<StateError>([&] { exchange::import_weights(one, Tree(), parts, join); }, "'qkv': 2 of 3 parts");
}

TEST_CASE("floats of another width are converted, random state is kept") {
  const Tree state = Tree::dict({{"drop", Tree::dict({{"rng", zeros({3}, uint32)}})}});
  auto tensors = linear();
  tensors["fc.bias"] = tensors["fc.bias"].astype(bfloat16);
  const auto [trainable, kept] =
      exchange::import_weights(variables(), state, tensors, exchange::torch_module("fc", "dense"));
  CHECK(trainable.at("dense/bias").array().dtype() == float32);
  CHECK(kept.at("drop/rng").array().dtype() == uint32);
}

TEST_CASE("all that does not fit is listed, with the nearest names") {
  auto tensors = linear();
  tensors["fc.biass"] = array({1.0f});
  tensors["fc.weight"] = zeros({3, 4});
  tensors.erase("fc.bias");
  tensors["other.weight"] = zeros({2, 2});
  const KeyMap map = exchange::joined({exchange::torch_module("fc", "dense"), exchange::torch_module("other", "dens")});
  expect_error<StateError>(
      [&] { exchange::import_weights(variables(), Tree(), tensors, map); },
      "[import_weights] the tensors and the model do not fit.",
      "variables for which there is no tensor:\n  'dense/bias' f32[3] (nearest: 'fc.biass')",
      "tensors for which there is no variable:\n  'fc.biass' f32[1]: no rule fits (nearest: 'dense/bias')",
      "'other.weight' f32[2,2]: the model has no 'dens/kernel' (nearest: 'dense/kernel')",
      "of another shape or dtype:\n  'fc.weight' f32[3,4] for 'dense/kernel' f32[2,3]",
      "Give rules (KeyMap) for these names, with an empty path for tensors to leave out");
}

TEST_CASE("dtypes, ranks, repetitions and expressions that do not fit") {
  const KeyMap map = exchange::torch_module("fc", "dense");
  auto tensors = linear();
  tensors["fc.bias"] = zeros({3}, int32);
  expect_error<StateError>([&] { exchange::import_weights(variables(), Tree(), tensors, map); },
                           "'fc.bias' i32[3] for 'dense/bias' f32[3]");
  tensors["fc.bias"] = zeros({3});
  tensors["fc.weight"] = zeros({3});
  expect_error<StateError>([&] { exchange::import_weights(variables(), Tree(), tensors, map); },
                           "f32[3] is no matrix, as the form `transposed` asks for");
  const KeyMap conv = {{"fc\\.weight", "dense/kernel", WeightForm::spatial_last}, {"fc\\.bias", "dense/bias"}};
  expect_error<StateError>([&] { exchange::import_weights(variables(), Tree(), linear(), conv); },
                           "f32[3,2] is no convolution's kernel, as the form `spatial_last` asks for");
  const KeyMap parts = {{.name = "fc\\.weight", .path = "dense/kernel", .of_tensor = {0, 2}},
                        {"fc\\.bias", "dense/bias"}};
  expect_error<StateError>([&] { exchange::import_weights(variables(), Tree(), linear(), parts); },
                           "f32[3,2] has no part 0 of 2 along dimension 0");
  const KeyMap twice = {{"fc\\.weight", "dense/kernel", WeightForm::transposed}, {".*", "dense/bias"}};
  tensors = linear();
  tensors["again"] = zeros({3});
  expect_error<StateError>([&] { exchange::import_weights(variables(), Tree(), tensors, twice); },
                           "'fc.bias': 'dense/bias' has a tensor already");
  expect_error<ValueError>(
      [&] {
        exchange::import_weights(variables(), Tree(), linear(), {{"(", "x"}});
      },
      "[import_weights] '(' is no regular expression");
  expect_error<StateError>(
      [&] {
        exchange::export_weights(variables(), Tree(), {{"fc.weight", zeros({4, 2})}}, map);
      },
      "[export_weights]", "'fc.weight' f32[4,2] would be f32[3,2]");
}
