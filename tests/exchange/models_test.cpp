#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/exchange.h>
#include <lockstep/lockstep.h>

#include "tests/exchange/golden.h"
#include "tests/support/temporary_folder.h"

// Weights that PyTorch saved (tests/golden/exchange/torch_models.py) give its logits here, and go back as they came.

using namespace lockstep;
using tests::golden;

namespace {

double largest_difference(const Array& a, const Array& b) {
  const Array wide = b.astype(float64);
  return max(abs(a.astype(float64) - wide)).item<double>() / max(abs(wide)).item<double>();
}

/// Imports a file's weights, compares the logits, and exports them to `back`, which must hold the same tensors.
template <class M>
void check_model(const M& model, const std::string& name, const std::string& file, const exchange::KeyMap& map,
                 const std::string& back) {
  const auto values = exchange::load_npz(golden / (name + "_values.npz"));
  const auto tensors = exchange::load_weights(golden / file);
  const auto [fresh, fresh_state] = model.init(random::key(0), values.at("x"));
  const auto [trainable, state] = exchange::import_weights(fresh, fresh_state, tensors, map);
  CHECK(trainable.same_structure(fresh));
  CHECK(state.same_structure(fresh_state));
  const Array logits = model.stateless_call(trainable, state, values.at("x"), false).first;
  REQUIRE(logits.shape() == values.at("logits").shape());
  CHECK(largest_difference(logits, values.at("logits")) < 1e-5);

  const tests::TemporaryFolder folder;
  const auto exported = exchange::export_weights(trainable, state, tensors, map);
  exchange::save_weights(folder.path() / back, exported);
  const auto again = exchange::load_weights(folder.path() / back);
  REQUIRE(again.size() == tensors.size());
  for (const auto& [tensor, value] : tensors) {
    CAPTURE(tensor);
    CHECK(again.at(tensor).type() == value.type());
    CHECK(again.at(tensor).to_bytes() == value.to_bytes());
  }
}

}  // namespace

TEST_CASE("a ResNet-18 of PyTorch's gives its logits") {
  const std::vector<std::int64_t> widths = {3, 4, 5, 6};
  const Model model([=](const Scope& scope, const Array& x) {
    return models::resnet(scope, x, {.classes = 5, .filters = widths, .blocks = {2}});
  });
  exchange::KeyMap map =
      exchange::joined({exchange::torch_module("conv1", "stem/conv"), exchange::torch_module("bn1", "stem/norm"),
                        exchange::torch_module("fc", "head")});
  for (int stage = 0; stage < 4; ++stage) {
    const std::string theirs = "layer" + std::to_string(stage + 1) + "\\.(\\d)\\.";
    const std::string ours = "stage_" + std::to_string(stage) + "/block_$1/";
    map = exchange::joined({map, exchange::torch_module(theirs + "conv1", ours + "first/conv"),
                            exchange::torch_module(theirs + "bn1", ours + "first/norm"),
                            exchange::torch_module(theirs + "conv2", ours + "second/conv"),
                            exchange::torch_module(theirs + "bn2", ours + "second/norm"),
                            exchange::torch_module(theirs + "downsample\\.0", ours + "shortcut/conv"),
                            exchange::torch_module(theirs + "downsample\\.1", ours + "shortcut/norm")});
  }
  check_model(model, "resnet18", "resnet18.pt", map, "back.pt");
}

TEST_CASE("a ViT of PyTorch's gives its logits") {
  const Model model([](const Scope& scope, const Array& x) {
    return models::vit(scope, x, {.classes = 5, .patch = 4, .blocks = {.width = 12, .depth = 2, .heads = 3}});
  });
  const std::string theirs = "blocks\\.(\\d)\\.", ours = "block_$1/";
  const exchange::KeyMap map =
      exchange::joined({exchange::torch_module("patch_embed", "patches"), exchange::KeyMap{{"pos_embed", "positions"}},
                        exchange::torch_module("norm", "norm"), exchange::torch_module("head", "head"),
                        exchange::torch_module(theirs + "ln_1", ours + "norm_0"),
                        exchange::torch_module(theirs + "ln_2", ours + "norm_1"),
                        exchange::KeyMap{{theirs + "attention\\.in_proj_weight", ours + "attention/qkv/kernel",
                                          exchange::WeightForm::transposed},
                                         {theirs + "attention\\.in_proj_bias", ours + "attention/qkv/bias"}},
                        exchange::torch_module(theirs + "attention\\.out_proj", ours + "attention/out"),
                        exchange::torch_module(theirs + "fc1", ours + "dense_0"),
                        exchange::torch_module(theirs + "fc2", ours + "dense_1")});
  check_model(model, "vit", "vit.npz", map, "back.npz");
}

TEST_CASE("GPT-2's weights, with a tied head, give its logits") {
  const Model model([](const Scope& scope, const Array& tokens) {
    return models::gpt(scope, tokens, {.vocabulary = 17, .blocks = {.width = 8, .depth = 2, .heads = 2}});
  });
  const std::string theirs = "h\\.(\\d)\\.", ours = "block_$1/";
  const exchange::KeyMap map = {
      {"wte\\.weight", "tokens/embeddings"},
      {"wte\\.weight", "head/kernel", exchange::WeightForm::transposed, /*also=*/true},
      {"wpe\\.weight", "positions"},
      {"ln_f\\.weight", "norm/gamma"},
      {"ln_f\\.bias", "norm/beta"},
      {theirs + "ln_1\\.weight", ours + "norm_0/gamma"},
      {theirs + "ln_1\\.bias", ours + "norm_0/beta"},
      {theirs + "ln_2\\.weight", ours + "norm_1/gamma"},
      {theirs + "ln_2\\.bias", ours + "norm_1/beta"},
      {theirs + "attn\\.c_attn\\.weight", ours + "attention/qkv/kernel"},
      {theirs + "attn\\.c_attn\\.bias", ours + "attention/qkv/bias"},
      {theirs + "attn\\.c_proj\\.weight", ours + "attention/out/kernel"},
      {theirs + "attn\\.c_proj\\.bias", ours + "attention/out/bias"},
      {theirs + "mlp\\.c_fc\\.weight", ours + "dense_0/kernel"},
      {theirs + "mlp\\.c_fc\\.bias", ours + "dense_0/bias"},
      {theirs + "mlp\\.c_proj\\.weight", ours + "dense_1/kernel"},
      {theirs + "mlp\\.c_proj\\.bias", ours + "dense_1/bias"},
  };
  check_model(model, "gpt2", "gpt2.safetensors", map, "back.safetensors");
}
