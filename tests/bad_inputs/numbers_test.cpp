#include <cfenv>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <xmmintrin.h>

#include <lockstep/lockstep.h>

#include "tests/bad_inputs/rows.h"
#include "tests/trainer/small_training.h"

namespace lockstep::tests {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
const JitOptions nans{.debug = {.nans = true}};
const JitOptions both{.debug = {.nans = true, .infs = true}};

/// A run whose data hold `value` in row 9.
TrainState run_on(float value, const detail::Callbacks& callbacks, std::int64_t steps = 5) {
  const TrainStep step = line_step();
  Array x = ones({20, 3});
  const Array y = where(equal(iota({20, 1}, 0), 9), value, ones({20, 1}));
  data::TreeLoader loader(Batch{x, y, ones({20})}, {.batch = 4, .shuffle = false});
  return fit(step, line_start(step), loader, {.steps = steps}, callbacks);
}

std::string stop_text(float value, callbacks::NanGuardOptions options, std::int64_t& step) {
  struct Last final : Callback {
    void on_end(const StepReport& report, const Tree&, Requests&) override { last = report; }
    StepReport last;
  };
  const auto last = std::make_shared<Last>();
  step = run_on(value, {std::make_shared<callbacks::NanGuard>(std::move(options)), last}).step.item<std::int64_t>();
  return last->last.stop_reason;
}

}  // namespace

TEST_CASE("bad inputs 107 to 109: NaN and infinities of data, of a loss and of a derivative") {
  const auto doubled = jit([](const Array& x) { return x * 2.0; }, both);
  refused<NonFiniteError>(107, [&] { doubled(array({1.0, std::nan("")})); });
  refused<NonFiniteError>(107, [&] { doubled(array({1.0, static_cast<double>(infinity)})); });
  const auto error = jit([](const Array& x, const Array& y) { return mean_squared_error(x, y).sum; }, both);
  refused<NonFiniteError>(107, [&] { error(zeros({2}), array(std::vector<float>{infinity, 0})); });
  std::int64_t step = 0;
  for (const float value : {std::nanf(""), infinity}) {
    CAPTURE(value);
    row(108, [&] {
      check_text(108, stop_text(value, {.action = callbacks::OnNan::stop}, step), "");
      CHECK(step == 3);
      CHECK(stop_text(value, {.action = callbacks::OnNan::skip}, step).empty());
      CHECK(step == 5);
    });
  }
  const auto named = jit([](const Array& a, const Array& b) { return exp(sin(a) / b); }, nans);
  refused<NonFiniteError>(108, [&] { named(array({1.0, 0.0}), array({2.0, 0.0})); });
  const auto logarithm =
      jit([](const Array& x) { return grad([](const Array& v) { return sum(log(square(v))); })(x); }, nans);
  refused<NonFiniteError>(109, [&] { logarithm(array({1.0, 0.0})); });
  const auto trap = jit(
      [](const Array& x) { return grad([](const Array& v) { return sum(where(greater(v, 0.0), sqrt(v), 0.0)); })(x); },
      nans);
  refused<NonFiniteError>(109, [&] { trap(array({4.0, 0.0})); });
}

TEST_CASE("bad inputs 110 to 112: denormals, infinite norms, NaN in a checkpoint") {
  row(110, [] {  // kept, whatever the caller's registers say, and the caller's stay
    const Array small = array(std::vector<float>(64, 1e-40F));
    const std::vector<float> expected = (small * 0.5F).to_vector<float>();
    CHECK(expected[0] > 0);
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040U);
    const auto halved = jit([](const Array& x) { return x * 0.5F + x * 0.0F; });
    const std::vector<float> found = halved(small).to_vector<float>();
    CHECK(_mm_getcsr() == (before | 0x8040U));
    _mm_setcsr(before);
    CHECK(found == expected);
  });
  row(111, [] {
    const Tree large = Tree::dict({{"w", Tree(array(std::vector<float>{infinity, 1}))}});
    const auto clip = optim::clip_by_global_norm(1.0);
    const auto clipped = jit([&](const Tree& g) { return clip.update(g, clip.init(g), g).first; }, nans);
    refused<NonFiniteError>(111, [&] { clipped(large); });
    const Tree finite = Tree::dict({{"w", Tree(array(std::vector<float>{3e38F, 3e38F}))}});
    CHECK(std::isfinite(clip.update(finite, clip.init(finite), finite).first.at("w").array().to_vector<float>()[0]));
    std::int64_t step = 0;
    check_text(111, stop_text(1e38F, {.action = callbacks::OnNan::stop}, step), "");
  });
  row(112, [] {  // bits are bits: a NaN is saved and restored as it was
    const TemporaryFolder folder;
    const Tree tree = Tree::dict({{"w", Tree(array(std::vector<float>{std::nanf("7"), -infinity, -0.0F}))}});
    checkpoint::save(folder.path() / "saved", tree, {});
    CHECK(fingerprint(checkpoint::restore(folder.path() / "saved", tree)) == fingerprint(tree));
    checkpoint::Manager manager(folder.path() / "managed", {.best_metric = "loss"});
    manager.save(1, tree, {{"loss", std::nan("")}});
    refused<CheckpointError>(112, [&] {
      static_cast<void>(manager.best());
      static_cast<void>(manager.restore(checkpoint::Choice::best));
    });
  });
}

}  // namespace lockstep::tests
