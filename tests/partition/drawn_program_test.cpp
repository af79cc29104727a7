#include <cmath>
#include <cstdint>
#include <random>

#include <doctest/doctest.h>

#include "tests/partition/partitioned.h"
#include "tests/support/random_program.h"

namespace lockstep::tests {
namespace {

/// Programs on arrays whose extents a mesh divides.
class RandomWideProgram : public RandomProgram {
 public:
  using RandomProgram::RandomProgram;

  ir::FunctionPtr make_wide(int equations) {
    const std::vector<Shape> shapes = {{4, 8}, {8, 4}, {8}, {4, 4, 8}};
    std::vector<ArrayType> types;
    for (int i = 0; i < 3; ++i) types.push_back({DType::float64, shapes[below(shapes.size())], {}});
    return make_function(types, [&](ir::Builder& builder, std::span<const ir::Value> inputs) {
      start(builder, inputs);
      for (int i = 0; i < equations; ++i) {
        const Value next = step();
        if (next.shape().size() <= 4096) add(next);
      }
      const Value last = pool().back();
      return std::vector{to_scalar(ops::sin(last)), pick(), pick()};
    });
  }
};

std::vector<Elements> drawn_elements(const ir::Function& f, std::mt19937_64& bits) {
  std::vector<Elements> inputs;
  for (const ArrayType& type : f.input_types()) {
    Elements elements;
    for (std::int64_t i = 0; i < type.size(); ++i) elements.push_back(static_cast<double>(bits() % 1000) / 500 - 1);
    inputs.push_back(std::move(elements));
  }
  return inputs;
}

/// Any axes that divide, on any dimensions.
partition::ValueLayout drawn_layout(const Shape& shape, const ir::AxisSizes& mesh, std::mt19937_64& bits) {
  partition::ValueLayout layout = partition::whole(shape.rank());
  for (const auto& axis : mesh.axes()) {
    if (shape.rank() == 0 || bits() % 4 == 0) continue;
    const auto d = static_cast<std::size_t>(bits() % static_cast<std::uint64_t>(shape.rank()));
    layout.cuts[d].push_back(axis.name);
    if (shape[static_cast<int>(d)] % partition::blocks(layout.cuts[d], mesh) != 0) layout.cuts[d].pop_back();
  }
  return layout;
}

struct Drawn {
  ir::AxisSizes mesh;
  std::vector<partition::ValueLayout> in;
  std::vector<std::optional<partition::ValueLayout>> out;
};

Drawn drawn_layouts(const ir::Function& f, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  Drawn drawn{ir::AxisSizes({{"data", 2}, {"model", seed % 3 == 0 ? 4 : 2}}), {}, {}};
  for (const ArrayType& type : f.input_types()) drawn.in.push_back(drawn_layout(type.shape, drawn.mesh, bits));
  for (const ArrayType& type : f.output_types()) {
    drawn.out.emplace_back(bits() % 2 == 0 ? std::optional(drawn_layout(type.shape, drawn.mesh, bits)) : std::nullopt);
  }
  return drawn;
}

void check_near(const std::vector<Elements>& given, const std::vector<Elements>& expected) {
  REQUIRE(given.size() == expected.size());
  for (std::size_t k = 0; k < expected.size(); ++k) {
    CAPTURE(k);
    for (std::size_t i = 0; i < expected[k].size(); ++i) {
      if (std::isnan(expected[k][i]) && std::isnan(given[k][i])) continue;
      REQUIRE(given[k][i] == doctest::Approx(expected[k][i]).epsilon(1e-9));
    }
  }
}

TEST_CASE("drawn programs with drawn layouts mean the same on a mesh") {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    const ir::FunctionPtr f = RandomWideProgram(seed).make_wide(14);
    const Drawn drawn = drawn_layouts(*f, seed);
    std::mt19937_64 bits(seed);
    const std::vector<Elements> inputs = drawn_elements(*f, bits);
    check_near(evaluate(partitioned(f, drawn.mesh, drawn.in, drawn.out), inputs), evaluate(f, inputs));
  }
}

TEST_CASE("with contraction_blocks the bits are those of one device, whatever the layouts") {
  const partition::Options options{.contraction_blocks = 8, .input_names = {}, .output_names = {}};
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const ir::FunctionPtr f = RandomWideProgram(seed).make_wide(14);
    const Drawn drawn = drawn_layouts(*f, seed);
    std::mt19937_64 bits(seed);
    const std::vector<Elements> inputs = drawn_elements(*f, bits);
    const ir::AxisSizes one({{"data", 1}, {"model", 1}});
    const auto run = [&](const ir::AxisSizes& mesh) {
      return evaluate(mapped_over(*f, mesh, partition::partition(f, mesh, drawn.in, drawn.out, options)), inputs);
    };
    const std::vector<Elements> whole = run(one);
    const std::vector<Elements> cut = run(drawn.mesh);
    for (std::size_t k = 0; k < whole.size(); ++k) {
      for (std::size_t i = 0; i < whole[k].size(); ++i) {
        if (!std::isnan(whole[k][i])) REQUIRE(cut[k][i] == whole[k][i]);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::tests
