#include <cstdint>
#include <new>
#include <string>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/allocations/counted_allocations.h"
#include "tests/bad_inputs/rows.h"
#include "tests/support/forked.h"
#include "tests/trainer/small_training.h"

// Memory that is not there, at every allocation of a step that arrays and kernels take.
namespace lockstep::tests {
namespace {

/// What is as large is memory of arrays, of a compiled step's values, and of what kernels work with.
constexpr std::size_t of_arrays = 4096;

/// How a child says what became of the nth allocation.
enum Ending : int { unharmed, not_reached, wrong_bits };

/// In a process of its own `work`'s nth allocation fails: that is an error of its caller's, or is made good, and the next
/// call gives what `work` always gives.
int with_failing(std::int64_t nth, const std::function<std::string()>& prepared,
                 const std::function<std::string()>& work) {
  return forked([&] {
    const std::string expected = prepared();
    fail_allocation(nth, of_arrays);
    std::string found = expected;
    try {
      found = work();
    } catch (const std::bad_alloc&) {
    } catch (const Error&) {
    }
    const bool was_reached = has_failed();
    fail_allocation(-1);
    if (found != expected || work() != expected) return static_cast<int>(wrong_bits);
    return static_cast<int>(was_reached ? unharmed : not_reached);
  });
}

}  // namespace

TEST_CASE("bad inputs 116: memory of arrays that is not there, at every place of a step") {
  if (!counts_allocations()) return;
  const auto step_once = [](const TrainStep& step) {
    return fingerprint(to_tree(step(line_start(step), Batch{ones({4096, 3}), ones({4096, 1}), {}}).first));
  };
  row(116, [&] {
    std::int64_t nth = 0;
    for (int ending = unharmed; ending != not_reached; ++nth) {
      CAPTURE(nth);
      std::optional<TrainStep> step;
      const auto work = [&] { return step_once(*step); };
      ending = with_failing(
          nth,
          [&] {
            step.emplace(line_step());
            return work();
          },
          work);
      REQUIRE((ending == unharmed || ending == not_reached));
    }
    CHECK(nth > 1);
  });
}

}  // namespace lockstep::tests
