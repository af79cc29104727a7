#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "memory.h"

// A GPT's blocks written out, scanned, and scanned and rematerialised: how long a training step takes to trace and compile,
// how long it runs, how much memory it takes beside its state, and whether loss and gradients are the same bits.
namespace lockstep::benches {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t rows = 8, length = 128, features = 128, heads = 4, vocabulary = 256;

enum class Form { written_out, written_out_remat, scanned, scanned_remat };

struct Case {
  Form form;
  std::int64_t blocks;
};

std::string name_of(Form form) {
  switch (form) {
    case Form::written_out:
      return "written out";
    case Form::written_out_remat:
      return "written out, remat";
    case Form::scanned:
      return "scanned";
    default:
      return "scanned, remat";
  }
}

Array block(const Scope& s, const Array& x) {
  const Array attended =
      multi_head_attention(s["attention"], layer_norm(s["norm_0"], x), {.heads = heads, .is_causal = true});
  const Array h = x + dropout(s["drop_0"], attended, 0.1);
  const Array wide = gelu(dense(s["in"], layer_norm(s["norm_1"], h), {.units = 4 * features}));
  return h + dropout(s["drop_1"], dense(s["out"], wide, {.units = features}), 0.1);
}

Array rematerialised(const Scope& s, const Array& x) {
  return remat([&](const Array& v) { return block(s, v); })(x);
}

Array gpt(const Scope& s, const Array& tokens, const Case& of) {
  Array h = embedding(s["embedding"], tokens, {.vocabulary = vocabulary, .features = features});
  const bool is_remat = of.form == Form::written_out_remat || of.form == Form::scanned_remat;
  const Layer layer = is_remat ? rematerialised : block;
  if (of.form == Form::scanned || of.form == Form::scanned_remat) {
    h = scan_layers(s["blocks"], of.blocks, layer, h);
  } else {
    for (std::int64_t i = 0; i < of.blocks; ++i) h = layer(s["blocks"][std::to_string(i)], h);
  }
  return dense(s["head"], layer_norm(s["norm"], h), {.units = vocabulary});
}

/// As the written-out form has it.
Tree written_out(const Tree& tree) { return tree.contains("blocks/0") ? tree : unstack_layers(tree, "blocks"); }

double seconds_of(const Clock::time_point& since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

void measure(const Case& of) {
  const Model<Array, Array> model([of](const Scope& s, const Array& tokens) { return gpt(s, tokens, of); });
  const Array tokens = random::randint(random::key(1), {rows, length}, 0, vocabulary);
  const auto [trainable, state] = model.init(random::key(5), tokens);
  const auto gradients_of = jit([model](const Tree& w, const Tree& s, const Array& x) {
    const auto loss = [&](const Tree& v) {
      const auto [y, next] = model.stateless_call(v, s, x, true);
      const Weighted error = softmax_cross_entropy(y, x);
      return std::pair(error.sum / error.weight, next);
    };
    return value_and_grad(loss)(w);
  });
  const double before = resident_mib();
  const auto start = Clock::now();
  const auto [value, gradients] = gradients_of(trainable, state, tokens);
  const std::string bits =
      fingerprint(Tree::list({Tree(value.first), written_out(gradients), written_out(value.second)}));
  const double first = seconds_of(start);
  const auto again = Clock::now();
  (void)gradients_of(trainable, state, tokens).first.first.item<float>();
  const double next = seconds_of(again);
  fmt::print("{:20} {:3} blocks   compiled in {:7.3f} s   step {:7.3f} s   memory {:7.1f} MiB   bits {}\n",
             name_of(of.form), of.blocks, first - next, next, peak_resident_mib() - before, bits.substr(0, 16));
}

/// In a process of its own: a peak is that of one case.
void measure_apart(const Case& of) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    try {
      measure(of);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "bench_scanned_layers: %s\n", error.what());
      std::fflush(nullptr);
      _exit(2);
    }
    std::fflush(nullptr);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
}

}  // namespace
}  // namespace lockstep::benches

int main() {
  using namespace lockstep::benches;
  for (const std::int64_t blocks : {3, 6, 12, 24}) {
    for (const Form form : {Form::written_out, Form::written_out_remat, Form::scanned, Form::scanned_remat}) {
      measure_apart({form, blocks});
    }
  }
  return 0;
}
