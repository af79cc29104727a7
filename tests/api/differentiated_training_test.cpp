#include <cmath>

#include <doctest/doctest.h>

#include <lockstep/control_flow.h>
#include <lockstep/function.h>
#include <lockstep/ops.h>
#include <lockstep/remat.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"
#include "tests/support/counted.h"

// Gradients through a whole training run, and what it costs to hold the run in memory.
using namespace lockstep;
using tests::check_close;
using tests::counted;
using tests::values;

namespace {

constexpr std::int64_t width = 12, batch_rows = 5;

struct Learner {
  Array w, velocity;
};
LOCKSTEP_TREE(Learner, w, velocity);

/// One step of SGD with momentum on a fixed regression problem.
Learner trained(const Learner& learner, const Array& rate) {
  const Array x = counted({batch_rows, width}), y = counted({batch_rows, width}) * 0.5;
  const Array g = grad([&](const Array& w) { return mean(square(tanh(matmul(x, w)) - y)); })(learner.w);
  const Array velocity = 0.9 * learner.velocity + g;
  return {learner.w - rate * velocity, velocity};
}

Learner start(const Array& w) { return {w, zeros(w.shape(), w.dtype())}; }

/// The loss of what `steps` steps make of w.
template <class Step>
auto final_loss(std::int64_t steps, const Step& step) {
  return [=](const Array& rate, const Array& w) {
    const auto body = [&](const Learner& learner, const Tree& none) { return std::pair(step(learner, rate), none); };
    return sum(square(scan(body, start(w), Tree(), {.length = steps}).first.w));
  };
}

/// The same with the run cut into `outer` pieces of which only the first state each is kept.
auto in_pieces(std::int64_t outer, std::int64_t inner) {
  return [=](const Array& rate, const Array& w) {
    const auto piece = remat([=](const Learner& from, const Array& r) {
      const auto body = [&](const Learner& l, const Tree& none) { return std::pair(remat(trained)(l, r), none); };
      return scan(body, from, Tree(), {.length = inner}).first;
    });
    const auto body = [&](const Learner& l, const Tree& none) { return std::pair(piece(l, rate), none); };
    return sum(square(scan(body, start(w), Tree(), {.length = outer}).first.w));
  };
}

template <class Loss>
std::int64_t peak_bytes(const Loss& loss) {
  const Function f = trace_function([&](const Array& r, const Array& w) { return grad<1>(loss)(r, w); }, array(0.1),
                                    counted({width, width}));
  const Plan plan = f.plan();
  return plan.arena_bytes + plan.scratch_bytes;
}

}  // namespace

TEST_CASE("the gradient through fifty checkpointed steps is that of the unrolled run") {
  const Array rate = array(0.1), w = counted({width, width});
  const auto unrolled = [](const Array& r, const Array& v) {
    Learner learner = start(v);
    for (int i = 0; i < 50; ++i) learner = trained(learner, r);
    return sum(square(learner.w));
  };
  const auto looped = final_loss(50, remat(trained));
  check_close(looped(rate, w), {}, values(unrolled(rate, w)), 1e-12);
  const auto check = [&](const auto& loss) {
    check_close(grad<0>(loss)(rate, w), {}, values(grad<0>(unrolled)(rate, w)), 1e-9);
    check_close(grad<1>(loss)(rate, w), w.shape(), values(grad<1>(unrolled)(rate, w)), 1e-9);
  };
  check(looped);
  check(final_loss(50, trained));
  check(in_pieces(5, 10));
}

TEST_CASE("checkpoints inside a loop keep the square root of its steps") {
  const double few = static_cast<double>(peak_bytes(in_pieces(8, 8)));
  const double many = static_cast<double>(peak_bytes(in_pieces(32, 32)));
  CAPTURE(few);
  CAPTURE(many);
  CHECK(many < 5 * few);  // 16 times the steps, 4 times the memory
  const double all_few = static_cast<double>(peak_bytes(final_loss(64, trained)));
  const double all = static_cast<double>(peak_bytes(final_loss(1024, trained)));
  CHECK(all > 12 * all_few);
  CHECK(all > 6 * many);
}
