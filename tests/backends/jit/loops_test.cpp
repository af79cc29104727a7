#include "tests/backends/jit/loops.h"

#include <algorithm>
#include <array>
#include <random>

#include "backends/jit/expand.h"
#include "engine/core/narrow_floats.h"

// Machine code against the same steps taken one element after the other.
namespace lockstep::tests {
namespace {

using Instruction = backend::ElementLoop::Instruction;

/// Instructions on float32 whose operands lie far back, so that more values are alive than there are registers.
std::shared_ptr<const backend::ElementLoop> random_loop(std::uint64_t seed, int operands, int instructions) {
  std::mt19937_64 bits(seed);
  std::vector<backend::ElementLoop::Operand> in(static_cast<std::size_t>(operands), {DType::float32, {0}});
  in.push_back({DType::bool_, {0}});
  in.push_back({DType::bfloat16, {0}});
  std::vector<Instruction> all;
  std::vector<int> reals;
  for (int k = 0; k < operands; ++k) reals.push_back(k);
  const auto next = [&] { return operands + 2 + static_cast<int>(all.size()); };
  const auto pick = [&] { return reals[bits() % reals.size()]; };
  const auto add = [&](std::string op, DType dtype, std::vector<int> of) {
    all.push_back({std::move(op), {}, dtype, std::move(of)});
    return next() - 1;
  };
  constexpr std::array two = {"add", "sub", "mul", "div", "maximum", "minimum"};
  constexpr std::array one = {"neg", "abs", "sqrt", "floor", "round", "exp", "tanh", "log1p"};
  reals.push_back(add("convert", DType::float32, {operands + 1}));
  while (static_cast<int>(all.size()) < instructions) {
    switch (bits() % 5) {
      case 0:
        reals.push_back(add(one[bits() % one.size()], DType::float32, {pick()}));
        break;
      case 1:
        reals.push_back(add("fma", DType::float32, {pick(), pick(), pick()}));
        break;
      case 2: {
        const int mask = bits() % 3 == 0 ? operands : add("less", DType::bool_, {pick(), pick()});
        reals.push_back(add("select", DType::float32, {mask, pick(), pick()}));
        break;
      }
      case 3:
        if (bits() % 4 == 0) {
          reals.push_back(add("convert", DType::float32, {add("convert", DType::bfloat16, {pick()})}));
          break;
        }
        [[fallthrough]];
      default:
        reals.push_back(add(two[bits() % two.size()], DType::float32, {pick(), pick()}));
    }
  }
  std::vector<int> results(reals.end() - 3, reals.end());
  results.push_back(pick());
  results.push_back(add("greater_equal", DType::bool_, {pick(), pick()}));
  results.push_back(operands);
  results.push_back(add("convert", DType::bfloat16, {pick()}));
  results.push_back(operands + 1);
  return loop_of(std::move(in), std::move(all), std::move(results));
}

std::vector<BoundLoop::Bytes> random_operands(const BoundLoop& bound, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::uniform_real_distribution<float> uniform(-3, 3);
  std::vector<BoundLoop::Bytes> operands;
  for (const ArrayType& type : bound.inputs) {
    BoundLoop::Bytes bytes(static_cast<std::size_t>(type.nbytes()));
    for (std::size_t i = 0; i < static_cast<std::size_t>(type.size()); ++i) {
      const float x = uniform(bits);
      if (type.dtype == DType::bool_) {
        bytes[i] = std::byte{static_cast<std::uint8_t>(x > 0)};
      } else if (type.dtype == DType::bfloat16) {
        std::memcpy(bytes.data() + 2 * i, reinterpret_cast<const std::byte*>(&x) + 2, 2);
      } else {
        std::memcpy(bytes.data() + 4 * i, &x, 4);
      }
    }
    operands.push_back(std::move(bytes));
  }
  return operands;
}

std::uint32_t lane_at(const BoundLoop::Bytes& bytes, DType dtype, std::size_t i) {
  if (dtype == DType::bool_) return bytes[i] == std::byte{0} ? 0 : 0xFFFFFFFFU;
  std::uint32_t lane = 0;
  const std::size_t width = size_of(dtype);
  std::memcpy(reinterpret_cast<std::byte*>(&lane) + 4 - width, bytes.data() + width * i, width);
  return lane;
}

}  // namespace

TEST_CASE("random loops of all lengths have the values of their steps") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const auto loop = random_loop(seed, 1 + static_cast<int>(seed % 14), 5 + static_cast<int>(3 * seed));
    const auto steps = backend::jit::expand(*loop);
    REQUIRE(steps.has_value());
    const auto n = static_cast<std::int64_t>(1 + (seed * 7) % 41);
    const std::vector<ArrayType> types = [&] {
      std::vector<ArrayType> all;
      for (const backend::ElementLoop::Operand& operand : loop->operands())
        all.push_back({operand.dtype, Shape{n}, {}});
      return all;
    }();
    for (const backend::Isa isa : usable_sets()) {
      const auto backend = backend::jit::make_backend(isa);
      const BoundLoop bound(*backend, loop, types, Shape{n});
      REQUIRE(bound.kernel != nullptr);
      const auto operands = random_operands(bound, seed);
      const auto results = bound.run(operands);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
        std::vector<std::uint32_t> lanes;
        for (std::size_t k = 0; k < operands.size(); ++k) lanes.push_back(lane_at(operands[k], types[k].dtype, i));
        const auto expected = run_steps(*steps, lanes);
        for (std::size_t r = 0; r < results.size(); ++r) {
          wrong += same_float(lane_at(results[r], bound.outputs[r].dtype, i), expected[r]) ? 0 : 1;
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("short rows with operands for each column") {
  const auto loop =
      loop_of({{DType::float32, {0, 1}}, {DType::float32, {1}}, {DType::bool_, {1}}, {DType::float32, {}}},
              {{"mul", {}, DType::float32, {0, 1}},
               {"select", {}, DType::float32, {2, 4, 3}},
               {"less", {}, DType::bool_, {5, 0}}},
              {5, 6});
  for (const std::int64_t rows : {1, 3, 4, 31, 32, 33, 100, 515}) {
    for (const std::int64_t columns : {1, 2, 10, 16, 48, 127, 128, 129}) {
      CAPTURE(rows);
      CAPTURE(columns);
      const Shape shape{rows, columns};
      const std::vector<ArrayType> types = {{DType::float32, shape, {}},
                                            {DType::float32, Shape{columns}, {}},
                                            {DType::bool_, Shape{columns}, {}},
                                            {DType::float32, Shape{}, {}}};
      for (const backend::Isa isa : usable_sets()) {
        const BoundLoop bound(*backend::jit::make_backend(isa), loop, types, shape);
        const auto operands = random_operands(bound, 3);
        const auto results = bound.run(operands);
        const auto real = [](const BoundLoop::Bytes& bytes, std::size_t i) {
          return std::bit_cast<float>(lane_at(bytes, DType::float32, i));
        };
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < static_cast<std::size_t>(rows * columns); ++i) {
          const std::size_t column = i % static_cast<std::size_t>(columns);
          const float x = real(operands[0], i);
          const float y = operands[2][column] != std::byte{0} ? x * real(operands[1], column) : real(operands[3], 0);
          wrong += real(results[0], i) == y && (results[1][i] != std::byte{0}) == (y < x) ? 0 : 1;
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("more masks than registers: of rows, of columns, of elements, chosen by, written, and both") {
  std::vector<backend::ElementLoop::Operand> operands = {{DType::float32, {0, 1}}, {DType::float32, {1}}};
  for (int k = 0; k < 3; ++k) operands.push_back({DType::bool_, {0}});
  operands.push_back({DType::bool_, {1}});
  for (int k = 0; k < 4; ++k) operands.push_back({DType::bool_, {0, 1}});
  const int first_mask = 2, masks = 8;
  std::vector<Instruction> all;
  const auto add = [&](std::string op, DType dtype, std::vector<int> of) {
    all.push_back({std::move(op), {}, dtype, std::move(of)});
    return static_cast<int>(operands.size() + all.size()) - 1;
  };
  std::vector<int> results;
  int value = add("mul", DType::float32, {0, 1});
  for (int k = 0; k < masks; ++k) {  // read while those that were made before are still to be chosen by
    results.push_back(add("less", DType::bool_, {value, k % 2}));
    value = add("sub", DType::float32, {value, add("select", DType::float32, {first_mask + k, value, 1})});
  }
  for (int k = masks; k-- > 0;)
    value = add("add", DType::float32, {value, add("select", DType::float32, {results[k], 0, value})});
  for (int k = 0; k < masks; k += 3) results.push_back(first_mask + k);
  results.push_back(value);
  const auto loop = loop_of(operands, all, results);
  const auto steps = backend::jit::expand(*loop);
  REQUIRE(steps.has_value());
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {2, 15}, {7, 16}, {3, 37}, {5, 300}}) {
    CAPTURE(rows);
    CAPTURE(columns);
    std::vector<ArrayType> types;
    for (const backend::ElementLoop::Operand& operand : operands) {
      Shape shape;
      for (const std::int64_t d : operand.dims) shape.append(d == 0 ? rows : columns);
      types.push_back({operand.dtype, shape, {}});
    }
    for (const backend::Isa isa : usable_sets()) {
      const BoundLoop bound(*backend::jit::make_backend(isa), loop, types, Shape{rows, columns});
      REQUIRE(bound.kernel != nullptr);
      const auto given = random_operands(bound, 17);
      const auto written = bound.run(given);
      std::size_t wrong = 0;
      for (std::int64_t i = 0; i < rows * columns; ++i) {
        std::vector<std::uint32_t> lanes;
        for (std::size_t k = 0; k < operands.size(); ++k) {
          const auto& dims = operands[k].dims;
          const std::int64_t at = dims.size() == 2 ? i : dims[0] == 0 ? i / columns : i % columns;
          lanes.push_back(lane_at(given[k], types[k].dtype, static_cast<std::size_t>(at)));
        }
        const auto expected = run_steps(*steps, lanes);
        for (std::size_t r = 0; r < written.size(); ++r) {
          wrong +=
              same_float(lane_at(written[r], bound.outputs[r].dtype, static_cast<std::size_t>(i)), expected[r]) ? 0 : 1;
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("operands of any strides, and small ones spread over the loop") {
  const std::vector<backend::ElementLoop::Operand> operands = {{DType::float32, {0, 1, 2}},
                                                               {DType::float32, {2}},
                                                               {DType::float32, {0}},
                                                               {DType::float32, {}},
                                                               {DType::float32, {0, 1, 2}}};
  const auto loop = loop_of(operands,
                            {{"fma", {}, DType::float32, {0, 1, 2}},
                             {"sub", {}, DType::float32, {5, 3}},
                             {"mul", {}, DType::float32, {6, 4}}},
                            {7});
  const Shape shape{3, 5, 37};
  const std::vector<ArrayType> types = {{DType::float32, shape, {}},
                                        {DType::float32, Shape{37}, {}},
                                        {DType::float32, Shape{3}, {}},
                                        {DType::float32, Shape{}, {}},
                                        {DType::float32, Shape{1, 5, 1}, {}}};
  std::vector<std::vector<float>> memory;
  for (std::size_t k = 0; k < types.size(); ++k) {
    memory.emplace_back(static_cast<std::size_t>(types[k].size()));
    for (std::size_t i = 0; i < memory[k].size(); ++i) memory[k][i] = static_cast<float>((i * 7 + k) % 23) / 3 - 2;
  }
  for (const backend::Isa isa : usable_sets()) {
    const BoundLoop bound(*backend::jit::make_backend(isa), loop, types, shape);
    REQUIRE(bound.kernel != nullptr);
    CHECK(bound.kernel->accepts_strided());
    CHECK(bound.kernel->accepts_in_place(0));
    CHECK(!bound.kernel->accepts_in_place(1));
    std::vector<ArrayView> views;
    for (std::size_t k = 0; k < types.size(); ++k) {
      views.push_back(contiguous_view(memory[k].data(), types[k].dtype, types[k].shape));
    }
    // The first operand as the transpose of an array of [37, 5, 3].
    for (const bool transposed : {false, true}) {
      if (transposed) views[0].strides = {1, 3, 15};
      const auto result = bound.run_views(views)[0];
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < 3; ++i) {
        for (std::size_t j = 0; j < 5; ++j) {
          for (std::size_t k = 0; k < 37; ++k) {
            const float x = memory[0][transposed ? i + 3 * j + 15 * k : (i * 5 + j) * 37 + k];
            const float expected = (std::fma(x, memory[1][k], memory[2][i]) - memory[3][0]) * memory[4][j];
            float given = 0;
            std::memcpy(&given, result.data() + 4 * ((i * 5 + j) * 37 + k), 4);
            wrong += given == expected ? 0 : 1;
          }
        }
      }
      CHECK(wrong == 0);
    }
  }
}

// ---- operands that are the same along a few elements

namespace {

/// An operand of a loop.
struct Part {
  DType dtype;
  Shape shape;
  std::vector<std::int64_t> dims;

  /// Which of its elements the loop reads for its element `i`.
  std::int64_t element(const Shape& loop, std::int64_t i) const {
    std::int64_t at = 0, scale = 1;
    for (int d = loop.rank(); d-- > 0; i /= loop[d]) {
      const auto found = std::ranges::find(dims, d);
      if (found == dims.end()) continue;
      const std::int64_t extent = shape[static_cast<int>(found - dims.begin())];
      if (extent != 1) at += i % loop[d] * scale;
      scale *= extent;
    }
    return at;
  }
};

/// A loop over `shape` of an operand of that shape, x and y.
struct LoopOfParts {
  const char* name;
  Shape shape;
  Part x, y;
  bool writes_out;  ///< Whether an operand is written out beforehand.

  std::shared_ptr<const backend::ElementLoop> loop() const {
    constexpr DType f32 = DType::float32;
    std::vector<std::int64_t> all;
    for (int d = 0; d < shape.rank(); ++d) all.push_back(d);
    return loop_of({{f32, all}, {x.dtype, x.dims}, {y.dtype, y.dims}},
                   {x.dtype == f32 ? Instruction{"neg", {}, f32, {1}} : Instruction{"convert", {}, f32, {1}},
                    {"mul", {}, f32, {0, 3}},
                    y.dtype == f32 ? Instruction{"sub", {}, f32, {4, 2}} : Instruction{"select", {}, f32, {2, 4, 0}}},
                   {5});
  }
  std::vector<ArrayType> types() const {
    return {{DType::float32, shape, {}}, {x.dtype, x.shape, {}}, {y.dtype, y.shape, {}}};
  }

  /// With the elements of x `step` elements apart.
  std::size_t wrong_elements(const BoundLoop& bound, const std::vector<BoundLoop::Bytes>& given,
                             std::int64_t step) const {
    const std::vector<ArrayType> all = types();
    std::vector<ArrayView> views;
    for (std::size_t k = 0; k < given.size(); ++k) {
      views.push_back(contiguous_view(const_cast<std::byte*>(given[k].data()), all[k].dtype, all[k].shape));
    }
    for (std::int64_t& stride : views[1].strides) stride *= step;
    const std::int64_t first = step < 0 ? all[1].size() - 1 : 0;
    views[1].data = static_cast<std::byte*>(views[1].data) + first * static_cast<std::int64_t>(size_of(x.dtype));
    const auto result = bound.run_views(views)[0];
    const auto steps = backend::jit::expand(*loop());
    const auto lane = [&](std::size_t k, std::int64_t at) {
      return lane_at(given[k], all[k].dtype, static_cast<std::size_t>(at));
    };
    std::size_t wrong = 0;
    for (std::int64_t i = 0; i < shape.size(); ++i) {
      const std::array<std::uint32_t, 3> lanes = {lane(0, i), lane(1, first + step * x.element(shape, i)),
                                                  lane(2, y.element(shape, i))};
      const std::uint32_t written = lane_at(result, DType::float32, static_cast<std::size_t>(i));
      wrong += same_float(written, run_steps(*steps, lanes)[0]) ? 0 : 1;
    }
    return wrong;
  }
};

}  // namespace

TEST_CASE("operands that are the same along a few elements") {
  constexpr DType f32 = DType::float32, bf16 = DType::bfloat16, mask = DType::bool_;
  const std::vector<LoopOfParts> cases = {
      {"a group of channels", {3, 50, 8, 4}, {f32, {3, 8}, {0, 2}}, {mask, {3, 1, 8, 1}, {0, 1, 2, 3}}, true},
      {"bfloat16", {2, 40, 5, 2, 3}, {bf16, {2, 5}, {0, 2}}, {f32, {5}, {2}}, true},
      {"one operand alone", {64, 6, 3}, {f32, {6}, {1}}, {f32, {6, 3}, {1, 2}}, true},
      {"all of an image", {2, 40, 2, 4}, {f32, {2}, {0}}, {f32, {2, 4}, {2, 3}}, false},
      {"nearly as many as there are", {3, 4, 8, 4}, {f32, {3, 4, 8}, {0, 1, 2}}, {f32, {8}, {2}}, false},
      {"beside short rows that stay", {3, 50, 8, 4}, {f32, {3, 8}, {0, 2}}, {f32, {3, 50, 1, 4}, {0, 1, 2, 3}}, false},
      {"a long row", {3, 50, 8, 40}, {f32, {3, 8}, {0, 2}}, {f32, {3, 8}, {0, 2}}, false},
  };
  for (const LoopOfParts& c : cases) {
    CAPTURE(std::string(c.name));
    for (const backend::Isa isa : usable_sets()) {
      const BoundLoop bound(*backend::jit::make_backend(isa), c.loop(), c.types(), c.shape);
      REQUIRE(bound.kernel != nullptr);
      CHECK((bound.kernel->scratch_bytes() > 0) == c.writes_out);
      const auto given = random_operands(bound, 5);
      for (const std::int64_t step : {1, -1, 0}) {
        CAPTURE(step);
        CHECK(c.wrong_elements(bound, given, step) == 0);
      }
    }
  }
}

TEST_CASE("bfloat16 in memory: spread over rows and columns, strided, and rounded where it is written") {
  const auto to = [](DType dtype, int of) { return Instruction{"convert", {{"dtype", dtype}}, dtype, {of}}; };
  const auto loop = loop_of({{DType::bfloat16, {0, 1}}, {DType::bfloat16, {0}}, {DType::bfloat16, {1}}},
                            {to(DType::float32, 0),
                             to(DType::float32, 1),
                             to(DType::float32, 2),
                             {"fma", {}, DType::float32, {3, 4, 5}},
                             to(DType::bfloat16, 6),
                             to(DType::float32, 7)},
                            {7, 6, 8});
  for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 7}, {4, 16}, {5, 37}, {40, 24}, {2, 300}}) {
    CAPTURE(rows);
    CAPTURE(columns);
    const Shape shape{rows, columns};
    const std::vector<ArrayType> types = {
        {DType::bfloat16, shape, {}}, {DType::bfloat16, Shape{rows}, {}}, {DType::bfloat16, Shape{columns}, {}}};
    for (const backend::Isa isa : usable_sets()) {
      const BoundLoop bound(*backend::jit::make_backend(isa), loop, types, shape);
      REQUIRE(bound.kernel != nullptr);
      const auto operands = random_operands(bound, 11);
      std::vector<ArrayView> views;
      for (std::size_t k = 0; k < types.size(); ++k) {
        views.push_back(contiguous_view(const_cast<std::byte*>(operands[k].data()), types[k].dtype, types[k].shape));
      }
      for (const bool transposed : {false, true}) {
        if (transposed) views[0].strides = {1, rows};
        const auto results = bound.run_views(views);
        const auto real = [](const BoundLoop::Bytes& bytes, DType dtype, std::int64_t i) {
          return std::bit_cast<float>(lane_at(bytes, dtype, static_cast<std::size_t>(i)));
        };
        std::size_t wrong = 0;
        for (std::int64_t i = 0; i < rows * columns; ++i) {
          const std::int64_t row = i / columns, column = i % columns;
          const float x = real(operands[0], DType::bfloat16, transposed ? row + rows * column : i);
          const float y =
              std::fma(x, real(operands[1], DType::bfloat16, row), real(operands[2], DType::bfloat16, column));
          const float rounded = bfloat16_value(bfloat16_bits(y));
          wrong += real(results[0], DType::bfloat16, i) == rounded && real(results[1], DType::float32, i) == y &&
                           real(results[2], DType::float32, i) == rounded
                       ? 0
                       : 1;
        }
        CHECK(wrong == 0);
      }
    }
  }
}

}  // namespace lockstep::tests
