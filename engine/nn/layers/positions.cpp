#include <cmath>
#include <string>
#include <vector>

#include <lockstep/error.h>
#include <lockstep/layers_attention.h>
#include <lockstep/ops.h>

namespace lockstep {
namespace {

Array scalar(const Operand& x, DType dtype) { return full({}, x, dtype); }

void check_position_dtype(std::string_view function, DType dtype) {
  if (is_float(dtype)) return;
  throw DtypeError("[" + std::string(function) + "] the dtype is " + std::string(name(dtype)) + "; give a float dtype");
}

void check_base(std::string_view function, double base) {
  if (base > 0) return;
  throw ValueError("[" + std::string(function) + "] base is " + std::to_string(base) + "; it must be above 0");
}

/// Angles [T, half] of positions from `offset` on.
Array angles(const Array& positions, std::int64_t half, double base) {
  std::vector<double> speeds(static_cast<std::size_t>(half));
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    speeds[i] = std::pow(base, -static_cast<double>(i) / static_cast<double>(half));
  }
  return expand_dims(positions, 1) * expand_dims(convert(array(speeds), positions.dtype()), 0);
}

/// Press, Smith and Lewis 2022.
std::vector<double> alibi_slopes(std::int64_t heads) {
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  for (std::int64_t h = 1; h <= power; ++h) {
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(power)));
  }
  for (std::int64_t h = 1; static_cast<std::int64_t>(slopes.size()) < heads; h += 2) {
    slopes.push_back(std::exp2(-4.0 * static_cast<double>(h) / static_cast<double>(power)));
  }
  return slopes;
}

}  // namespace

Array rotary(const ArrayOperand& x, const Operand& offset, double base) {
  if (x.ndim() != 4 || x.dim(-1) % 2 != 0 || !is_float(x.dtype())) {
    throw ShapeError("[rotary] the input is " + to_string(x.type()) + "; give floats [N, T, heads, H] of even H");
  }
  check_base("rotary", base);
  const DType dtype = promote(x.dtype(), float32);
  const Array turns = angles(convert(arange(x.dim(1)), dtype) + scalar(offset, dtype), x.dim(-1) / 2, base);
  const Array c = expand_dims(cos(turns), 1), s = expand_dims(sin(turns), 1);
  const std::vector<Array> halves = split(convert(x, dtype), 2, -1);
  return convert(concatenate({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1), x.dtype());
}

Array alibi_bias(std::int64_t heads, std::int64_t queries, std::int64_t keys, const Operand& offset, DType dtype) {
  check_position_dtype("alibi_bias", dtype);
  if (heads < 1) throw ValueError("[alibi_bias] heads is " + std::to_string(heads) + "; it must be at least 1");
  const Array t = convert(arange(queries), dtype) + scalar(offset, dtype), s = convert(arange(keys), dtype);
  const Array distance = abs(expand_dims(t, 1) - expand_dims(s, 0));
  const Array slopes = convert(array(alibi_slopes(heads)), dtype);
  return reshape(-slopes, {1, heads, 1, 1}) * distance;
}

Array sinusoidal_positions(std::int64_t positions, std::int64_t features, double base, DType dtype) {
  if (features < 2 || features % 2 != 0) {
    throw ValueError("[sinusoidal_positions] features is " + std::to_string(features) + "; it must be even");
  }
  check_position_dtype("sinusoidal_positions", dtype);
  check_base("sinusoidal_positions", base);
  const DType wide = promote(dtype, float32);
  const Array turns = angles(convert(arange(positions), wide), features / 2, base);
  return convert(concatenate({sin(turns), cos(turns)}, 1), dtype);
}

}  // namespace lockstep
