#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "engine/ops/primitives.h"

// Of which ops and dtypes fused loops are made, written out: a backend's loops must have them all.
namespace lockstep::tests {
namespace {

/// One letter a dtype pair that is taken: f float32, w bfloat16, i int32, u uint32, b bool of operand and result alike.
const std::map<std::string_view, std::string_view>& same_dtype() {
  static const std::map<std::string_view, std::string_view> table = {{"abs", "fw"},
                                                                     {"add", "fwiu"},
                                                                     {"bitwise_and", "iub"},
                                                                     {"bitwise_not", "iub"},
                                                                     {"bitwise_or", "iub"},
                                                                     {"bitwise_xor", "iub"},
                                                                     {"ceil", "fw"},
                                                                     {"div", "fw"},
                                                                     {"erf", "fw"},
                                                                     {"erfc", "fw"},
                                                                     {"exp", "fw"},
                                                                     {"exp2", "fw"},
                                                                     {"expm1", "fw"},
                                                                     {"floor", "fw"},
                                                                     {"fma", "f"},
                                                                     {"integer_pow", "fw"},
                                                                     {"log", "fw"},
                                                                     {"log1p", "fw"},
                                                                     {"logistic", "fw"},
                                                                     {"maximum", "fwib"},
                                                                     {"minimum", "fwib"},
                                                                     {"mul", "fwiu"},
                                                                     {"neg", "fwiu"},
                                                                     {"reduce_sum", "f"},
                                                                     {"round", "fw"},
                                                                     {"rsqrt", "fw"},
                                                                     {"shift_left", "iu"},
                                                                     {"sign", "fw"},
                                                                     {"sqrt", "fw"},
                                                                     {"sub", "fwiu"},
                                                                     {"tanh", "fw"},
                                                                     {"shift_right_arithmetic", "iu"},
                                                                     {"shift_right_logical", "iu"}};
  return table;
}

/// Letters of the operands of which a bool is made.
const std::map<std::string_view, std::string_view>& to_bool() {
  static const std::map<std::string_view, std::string_view> table = {
      {"equal", "fwiub"}, {"not_equal", "fwiub"},   {"less", "fwi"},    {"less_equal", "fwi"},
      {"greater", "fwi"}, {"greater_equal", "fwi"}, {"is_finite", "fw"}};
  return table;
}

const std::vector<DType> dtypes = {DType::bool_,   DType::int8,      DType::uint8,      DType::int16,
                                   DType::uint16,  DType::int32,     DType::uint32,     DType::int64,
                                   DType::uint64,  DType::float16,   DType::bfloat16,   DType::float32,
                                   DType::float64, DType::complex64, DType::complex128, DType::key};

char letter(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return 'f';
    case DType::bfloat16:
      return 'w';
    case DType::int32:
      return 'i';
    case DType::uint32:
      return 'u';
    case DType::bool_:
      return 'b';
    default:
      return '-';
  }
}

bool expected(std::string_view op, DType from, DType to) {
  const char a = letter(from), b = letter(to);
  const auto has = [](std::string_view letters, char c) { return letters.find(c) != std::string_view::npos; };
  if (op == "convert") {
    if (a == 'w' || b == 'w') return has("fwb", a) && has("fwb", b);
    return a != '-' && b != '-' && std::string{a, b} != "fu" && std::string{a, b} != "uf";
  }
  if (op == "bitcast_convert") return has("fiu", a) && has("fiu", b);
  if (op == "select") return b != '-' && (a == 'b' || a == b);
  if (const auto it = to_bool().find(op); it != to_bool().end()) return b == 'b' && has(it->second, a);
  const auto it = same_dtype().find(op);
  return it != same_dtype().end() && a == b && has(it->second, a);
}

}  // namespace

TEST_CASE("fused loops are made of these ops and dtypes") {
  int taken = 0;
  for (const ops::PrimitiveGetter getter : ops::all_primitives()) {
    const ir::Primitive& op = getter();
    CAPTURE(op.name);
    for (const DType from : dtypes) {
      for (const DType to : dtypes) {
        const bool is_taken = op.traits.in_loops != nullptr && op.traits.in_loops(from, to);
        CAPTURE(short_name(from));
        CAPTURE(short_name(to));
        CHECK(is_taken == expected(op.name, from, to));
        taken += is_taken ? 1 : 0;
      }
    }
  }
  CHECK(taken > 80);
}

}  // namespace lockstep::tests
