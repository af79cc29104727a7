#include <optional>
#include <ranges>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/small_training.h"

using namespace lockstep;
using tests::expect_error;
using tests::line_start;
using tests::line_step;

namespace {

struct Sum {
  Array total;
};
LOCKSTEP_TREE(Sum, total);

struct Numbers {
  Array x;
};
LOCKSTEP_TREE(Numbers, x);

/// A step of a program's own types: adds up what comes.
std::pair<Sum, std::map<std::string, double>> add(Sum sum, const Numbers& batch) {
  const auto x = static_cast<double>(batch.x.item<int>());
  return {{sum.total * 10 + batch.x}, {{"x", x}}};
}

Numbers number(int x) { return {reshape(array(x), {1})}; }

/// Of each step, the epoch and number.
class Places final : public Callback {
 public:
  void on_step(const StepReport& report, const Tree&, Requests&) override {
    places += std::to_string(report.epoch) + ":" + std::to_string(report.step) + " ";
  }
  void on_epoch(const StepReport& report, const Tree&, Requests&) override {
    places += "|" + std::to_string(report.epoch) + " ";
  }
  std::string places;
};

template <class B>
std::pair<int, std::string> fitted(B&& batches, const TrainerOptions& options) {
  const auto places = std::make_shared<Places>();
  const Sum sum = fit(add, Sum{reshape(array(0), {1})}, batches, options, {places});
  return {sum.total.item<int>(), places->places};
}

/// Two batches an epoch, `epochs` of them.
auto generator(int epochs) {
  return [epochs, at = 0]() mutable -> std::optional<Numbers> {
    const int place = at++;
    if (place / 3 >= epochs || place % 3 == 2) return std::nullopt;
    return number(place / 3 * 2 + place % 3 + 1);
  };
}

}  // namespace

TEST_CASE("fit takes any step and any batches: ranges, passed through once an epoch, and generators") {
  std::vector<Numbers> batches = {number(1), number(2), number(3)};
  const std::string five = "0:1 0:2 0:3 |0 1:4 1:5 |1 ";
  CHECK(fitted(batches, {.steps = 5}) == std::pair(12312, five));
  CHECK(fitted(batches, {.epochs = 2}) == std::pair(123123, std::string("0:1 0:2 0:3 |0 1:4 1:5 1:6 |1 ")));
  CHECK(fitted(batches, {.steps = 2, .epochs = 7}) == std::pair(12, std::string("0:1 0:2 |0 ")));
  auto once = std::views::iota(1, 4) | std::views::transform([](int i) { return number(i); });
  CHECK(fitted(once, {.steps = 4}).first == 1231);
  CHECK(fitted(std::vector<Numbers>{number(7)}, {.steps = 2}).first == 77);
  CHECK(fitted(std::vector<Numbers>{}, {.steps = 2}).first == 0);
  CHECK(fitted(generator(2), {.steps = 9}) == std::pair(1234, std::string("0:1 0:2 |0 1:3 1:4 |1 ")));
  CHECK(fitted(generator(9), {.epochs = 2}) == std::pair(1234, std::string("0:1 0:2 |0 1:3 1:4 |1 ")));
}

TEST_CASE("ranges and generators are gone on with where a run was saved") {
  for (const bool from_range : {true, false}) {
    const tests::TemporaryFolder folder;
    const auto manager = [&] { return std::make_shared<checkpoint::Manager>(folder.path()); };
    std::vector<Numbers> batches = {number(1), number(2), number(3), number(4), number(5)};
    const auto run = [&](std::int64_t steps) {
      const TrainerOptions options{.steps = steps, .checkpoints = manager(), .save_every = 2, .resume = true};
      return from_range ? fitted(batches, options) : fitted(generator(4), options);
    };
    const int whole = from_range ? 1234512 : 1234567;
    CHECK(run(3).first == 123);
    CHECK(run(7).first == whole);
  }
  const tests::TemporaryFolder folder;
  const auto manager = [&] { return std::make_shared<checkpoint::Manager>(folder.path()); };
  fitted(generator(2), {.steps = 4, .checkpoints = manager()});
  expect_error<DataError>([&] { fitted(generator(1), {.steps = 6, .checkpoints = manager(), .resume = true}); },
                          "do not come by epoch 2 row 0");
}

TEST_CASE("evaluate goes through one epoch, each time from the beginning, and weighs by rows") {
  const TrainStep step = line_step();
  const TrainState state = line_start(step);
  const EvaluateStep evaluation(StepLoss(tests::line_loss), {.shards = 2});
  auto loader = tests::line_loader(10, 4, false);  // 4, 4, and 2 padded rows
  const auto by_loader = evaluate(evaluation, state, loader);
  CHECK(by_loader.size() == 1);
  auto whole = tests::line_loader(10, 10, false);
  CHECK(by_loader.at("loss") == doctest::Approx(evaluate(evaluation, state, whole).at("loss")));
  loader.next();
  CHECK(evaluate(evaluation, state, loader) == by_loader);
  CHECK(evaluate(evaluation, to_tree(state), loader) == by_loader);
  const auto own = [](const Sum& sum, const Numbers& batch) {
    return std::map<std::string, double>{{"x", sum.total.item<int>() * batch.x.item<int>()}};
  };
  std::vector<Numbers> numbers = {number(1), number(5)};
  CHECK(evaluate(own, Sum{array(2)}, numbers).at("x") == 6);
  auto twice = generator(2);
  CHECK(evaluate(own, Sum{array(1)}, twice).at("x") == 1.5);
  CHECK(evaluate(own, Sum{array(1)}, twice).at("x") == 3.5);  // the second epoch, none of it lost
}

TEST_CASE("predict has a result for each row, without those that are padding") {
  auto loader = tests::line_loader(10, 4, false);
  const Array doubled = predict([](const Batch& b) { return b.x * 2; }, loader);
  CHECK(doubled.shape() == Shape{10, 3});
  auto whole = tests::line_loader(10, 10, false);
  CHECK(doubled.to_vector<float>() == (whole.next<Batch>().x * 2).to_vector<float>());
  const auto both = predict([](const Batch& b) { return std::pair(b.x, sum(b.x, Axes{1})); }, loader);
  CHECK(both.second.shape() == Shape{10});
  expect_error<DataError>(
      [] { static_cast<void>(predict([](const Numbers& n) { return n.x; }, std::vector<Numbers>{})); }, "no batch");
  expect_error<DataError>([&] { static_cast<void>(predict([](const Batch& b) { return sum(b.x); }, loader)); },
                          "expected one result a row");
}
