#include "engine/trace/key_reuse.h"

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/ops/primitives.h"
#include "engine/ops/values.h"
#include "tests/support/control_flow_program.h"
#include "tests/support/evaluate.h"
#include "tests/support/expect_error.h"

// Keys in loops and branches, and where following them ends.
namespace lockstep::tests {

namespace {

using ir::Builder;
using ir::FunctionPtr;
using ir::Value;
using Values = std::span<const Value>;

const ArrayType one_key{DType::key, {}, {}};
const ArrayType number{uint32, {}, {}};

Value draw(const Value& key) {
  return ops::apply_one(ops::primitives::random_bits(), {key}, {{"shape", ops::Dims{}}, {"width", std::int64_t{32}}});
}
Value split(const Value& key, std::int64_t n) {
  return ops::apply_one(ops::primitives::random_split(), {key}, {{"shape", ops::Dims{n}}});
}
Value at(const Value& keys, std::int64_t i) { return ops::reshape(ops::slice(keys, {i}, {i + 1}, {1}), {}); }

void check(const FunctionPtr& f) { tracing::check_key_reuse(*f); }

/// scan over `length` with one captured key, a carry and xs.
FunctionPtr scan_of(const FunctionPtr& body, std::int64_t length, const std::vector<ArrayType>& types,
                    std::size_t consts, std::size_t carries) {
  return make_function(types, [&](Builder&, Values x) {
    return ops::apply(ops::primitives::scan(), x, ir::Scan{body, length, consts, carries}.attrs());
  });
}

}  // namespace

TEST_CASE("a scan body that draws from a captured key uses it again") {
  const FunctionPtr body =
      make_function({one_key, number}, [](Builder&, Values x) { return std::vector<Value>{x[1] + draw(x[0])}; });
  check(scan_of(body, 1, {one_key, number}, 1, 1));  // once is no reuse
  expect_error<KeyReuseError>(
      [&] {
        check(scan_of(body, 3, {one_key, number}, 1, 1));
      },
      "random_bits uses a random key that random_bits", "earlier iteration of the same scan",
      "scan over the keys of a split");
}

TEST_CASE("a scan may carry a key, or go over keys, and use each once") {
  const auto carrying = [](bool replaced) {
    return make_function({one_key, number}, [&](Builder&, Values x) {
      const Value keys = split(x[0], 2);
      return std::vector<Value>{replaced ? at(keys, 0) : x[0], x[1] + draw(at(keys, 1))};
    });
  };
  check(scan_of(carrying(true), 3, {one_key, number}, 0, 2));
  expect_error<KeyReuseError>(
      [&] {
        check(scan_of(carrying(false), 3, {one_key, number}, 0, 2));
      },
      "random_split uses a random key that random_split", "earlier iteration");
  const FunctionPtr over =
      make_function({number, one_key}, [](Builder&, Values x) { return std::vector<Value>{x[0] + draw(x[1])}; });
  const ArrayType keys{DType::key, {3}, {}};
  check(scan_of(over, 3, {number, keys}, 0, 1));
  const auto then_draws = make_function({number, keys}, [&](Builder&, Values x) {
    const Value sum = ops::apply(ops::primitives::scan(), x, ir::Scan{over, 3, 0, 1}.attrs())[0];
    return std::vector<Value>{sum + draw(at(x[1], 2))};
  });
  expect_error<KeyReuseError>([&] { check(then_draws); }, "random_bits");
}

TEST_CASE("a key used twice is found in loops until a condition and in branches") {
  const FunctionPtr condition = make_function({one_key, number}, [](Builder&, Values x) {
    return std::vector<Value>{ops::less(x[1], ops::full_like(x[1], 9))};
  });
  const FunctionPtr body =
      make_function({one_key, number}, [](Builder&, Values x) { return std::vector<Value>{x[1] + draw(x[0])}; });
  const auto loop = make_function({one_key, one_key, number}, [&](Builder&, Values x) {
    return ops::apply(ops::primitives::while_loop(), x, ir::WhileLoop{condition, body, 1, 1}.attrs());
  });
  expect_error<KeyReuseError>([&] { check(loop); }, "earlier iteration of the same while_loop");

  const FunctionPtr branch =
      make_function({one_key}, [](Builder&, Values x) { return std::vector<Value>{draw(x[0])}; });
  const auto choose = [&](bool again) {
    return make_function({{int32, {}, {}}, one_key}, [&](Builder&, Values x) {
      Value y = ops::apply(ops::primitives::cond(), x, ir::Cond{{branch, branch}}.attrs())[0];
      if (again) y = y + draw(x[1]);
      return std::vector<Value>{y};
    });
  };
  check(choose(false));  // one of the branches alone runs
  expect_error<KeyReuseError>([&] { check(choose(true)); }, "random_bits");
}

TEST_CASE("a key used twice is found in calls; what transposition repeats is no second use") {
  const auto called = make_function({one_key}, [&](Builder&, Values x) {
    return std::vector<Value>{
        call({x[0]}, [](Builder&, Values inner) { return std::vector<Value>{draw(inner[0])}; })[0] + draw(x[0])};
  });
  expect_error<KeyReuseError>([&] { check(called); }, "random_bits");
  check(make_function({one_key}, [](Builder& builder, Values x) {
    const Value y = draw(x[0]);
    builder.set_provenance({nullptr, true});
    return std::vector<Value>{y + draw(x[0])};
  }));
}

TEST_CASE("the layers of both uses are named") {
  const auto f = make_function({one_key}, [](Builder& builder, Values x) {
    builder.set_provenance({std::make_shared<const std::string>("block/a"), false});
    const Value y = draw(x[0]);
    builder.set_provenance({std::make_shared<const std::string>("block/b"), false});
    return std::vector<Value>{y + draw(x[0])};
  });
  expect_error<KeyReuseError>([&] { check(f); }, "random_bits (in layer 'block/b') uses",
                              "that random_bits (in layer 'block/a') has used before");
}

TEST_CASE("a slice whose place is data is taken for a new key") {
  const ArrayType keys{DType::key, {3}, {}};
  check(make_function({keys, {int32, {}, {}}}, [](Builder&, Values x) {
    const auto pick = [&] {
      return ops::reshape(ops::apply_one(ops::primitives::dynamic_slice(), {x[0], x[1]}, {{"sizes", ops::Dims{1}}}),
                          {});
    };
    return std::vector<Value>{draw(pick()) + draw(pick())};
  }));
  check(make_function({{DType::key, {1 << 17}, {}}}, [](Builder&, Values x) {  // too many to be followed
    return std::vector<Value>{draw(at(x[0], 5)) + draw(at(x[0], 5))};
  }));
}

}  // namespace lockstep::tests
