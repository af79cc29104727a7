#include <string>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"
#include "tests/support/small_models.h"
#include "tests/support/training.h"

// What will make a NaN of a training step's gradient.
using namespace lockstep;

namespace {

std::vector<std::string> lint_findings(const Model<Array, Array>& model, const LossFunction& loss, const Batch& batch,
                                       std::int64_t microbatches = 1) {
  DataParallelOptions options = tests::parallel({4, 2});
  options.microbatches = microbatches;
  const TrainStep step = data_parallel(model, loss, optim::adam(0.1), options);
  return lint(step, tests::fresh_state(step, model, batch), batch);
}

Model<Array, Array> head() {
  return Model([](Scope& scope, const Array& x) { return dense(scope["head"], x, {.units = 1}); });
}

}  // namespace

TEST_CASE("lint has nothing to say of the library's models") {
  const Batch images{random::uniform(random::key(1), {8, 12, 12, 1}), arange(8), {}};
  for (const std::string_view name : tests::small_models()) {
    CAPTURE(name);
    const auto model = tests::narrow_model(name);
    for (const std::string& text : lint_findings(model, tests::loss_of(model), images)) FAIL_CHECK(text);
  }
}

TEST_CASE("lint of a step sees its loss, whatever its microbatches, and neither the data nor the optimizer") {
  const auto model = head();
  const Batch batch = tests::regression_batch(8, 3, float32);
  const LossFunction naive = [&](const Tree& w, const Tree& state, const Batch& b) {
    const Array y = squeeze(model.stateless_call(w, state, b.x, true, {.rows = b.weight}).first, {1});
    return WithAux{Weighted{sum(where(y > 0, sqrt(y), 0) * b.weight), sum(b.weight)}, state, {}};
  };
  for (const std::int64_t microbatches : {1, 2}) {
    const std::vector<std::string> texts = lint_findings(model, naive, batch, microbatches);
    REQUIRE(texts.size() == 1);
    CHECK(tests::contains(texts[0], "select: sqrt of "));
  }
  const LossFunction of_data = [&](const Tree& w, const Tree& state, const Batch& b) {
    const Array x = where(b.x > 0, log(b.x), 0);
    const auto [y, next] = model.stateless_call(w, state, x, true, {.rows = b.weight});
    return WithAux{mean_squared_error(y, b.y, b.weight), next, {}};
  };
  CHECK(lint_findings(model, of_data, batch).empty());
}
