#include "backends/jit/expand.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <variant>

#include "backends/cpu/element_types.h"
#include "backends/jit/functions.h"

namespace lockstep::backend::jit {
namespace {

/// What lanes hold; a brain is a float whose last 16 bits are 0, or what was rounded to one (Op::round_bfloat16).
enum class Kind : std::uint8_t { real, integer, natural, mask, brain };
constexpr std::array kinds = {std::pair{DType::float32, Kind::real}, std::pair{DType::int32, Kind::integer},
                              std::pair{DType::uint32, Kind::natural}, std::pair{DType::bool_, Kind::mask},
                              std::pair{DType::bfloat16, Kind::brain}};

Element element_of(DType dtype) {
  return dtype == DType::bool_ ? Element::byte : dtype == DType::bfloat16 ? Element::bfloat16 : Element::word;
}

std::optional<Kind> kind_of(DType dtype) {
  for (const auto& [of, kind] : kinds) {
    if (of == dtype) return kind;
  }
  return std::nullopt;
}

constexpr int no_term = -1;
constexpr std::size_t most_steps = 4000;
constexpr std::uint32_t one = 0x3F800000U;

/// One instruction on the way to steps.
struct Call {
  Code& code;
  const ElementLoop::Instruction& instruction;
  Kind from;               ///< Of the last operand.
  Kind to;                 ///< Of the result.
  std::array<int, 3> x{};  ///< The operands' steps.

  int step(Op op, int a, int b = -1, int c = -1) const { return code.step(op, a, b, c); }
  int flipped(int mask) const { return step(Op::bit_xor, mask, code.constant(0xFFFFFFFFU)); }
  bool is_real() const { return from == Kind::real; }
  float number(double value) const {
    if (instruction.dtype != DType::bfloat16) return static_cast<float>(value);
    return cpu::rounded<cpu::Bfloat16>(value);
  }
  bool is_word() const { return from == Kind::integer || from == Kind::natural; }
};

/// The step of the result, or none.
using Rule = std::function<int(const Call&)>;

Rule of_words(Op op) {
  return [op](const Call& c) { return c.is_word() ? c.step(op, c.x[0], c.x[1]) : no_term; };
}
Rule of_bits(Op op) {
  return [op](const Call& c) { return c.is_real() ? no_term : c.step(op, c.x[0], c.x[1]); };
}
Rule of_numbers(Op real, Op integer) {
  return [=](const Call& c) {
    return c.from == Kind::mask ? no_term : c.step(c.is_real() ? real : integer, c.x[0], c.x[1]);
  };
}
Rule of_reals(Op op) {
  return [op](const Call& c) { return c.is_real() ? c.step(op, c.x[0], c.x[1], c.x[2]) : no_term; };
}
Rule function(int (*f)(Code&, int)) {
  return [f](const Call& c) { return c.is_real() ? f(c.code, c.x[0]) : no_term; };
}

/// a op b, where less and int_greater say "a < b" and "a > b".
enum class Order : std::uint8_t { less, less_equal, greater, greater_equal };
Rule ordering(Order order) {
  return [order](const Call& c) {
    const bool swapped = order == Order::greater || order == Order::greater_equal;
    const bool or_equal = order == Order::less_equal || order == Order::greater_equal;
    const int a = swapped ? c.x[1] : c.x[0];
    const int b = swapped ? c.x[0] : c.x[1];
    if (c.is_real()) return c.step(or_equal ? Op::less_equal : Op::less, a, b);
    if (c.from != Kind::integer) return no_term;
    return or_equal ? c.flipped(c.step(Op::int_greater, a, b)) : c.step(Op::int_greater, b, a);
  };
}

int equality(const Call& c, bool equal) {
  if (c.is_real()) return c.step(equal ? Op::equal : Op::not_equal, c.x[0], c.x[1]);
  const int same = c.step(Op::int_equal, c.x[0], c.x[1]);
  return equal ? same : c.flipped(same);
}

int extremum(const Call& c, bool largest) {
  if (c.is_real())
    return largest ? functions::maximum(c.code, c.x[0], c.x[1]) : functions::minimum(c.code, c.x[0], c.x[1]);
  if (c.from == Kind::mask) return c.step(largest ? Op::bit_or : Op::bit_and, c.x[0], c.x[1]);
  if (c.from != Kind::integer) return no_term;
  const int greater = c.step(Op::int_greater, c.x[0], c.x[1]);
  return largest ? c.step(Op::select, greater, c.x[0], c.x[1]) : c.step(Op::select, greater, c.x[1], c.x[0]);
}

int negative_of(const Call& c) {
  if (c.is_real()) return functions::negative(c.code, c.x[0]);
  return c.is_word() ? c.step(Op::int_sub, c.code.constant(0), c.x[0]) : no_term;
}

/// What was loaded is a float already.
int widened(Code& code, int x) { return code[x].op == Op::round_bfloat16 ? code.step(Op::widen_bfloat16, x) : x; }

int convert_of(const Call& c) {
  const int x = c.x[0];
  if (c.from == c.to) return x;
  if (c.from == Kind::mask) {
    return c.step(Op::bit_and, x, c.code.constant(c.to == Kind::real ? one : 1U));
  }
  const int zero = c.code.constant(0);
  if (c.to == Kind::mask) {
    return c.is_real() ? c.step(Op::not_equal, x, zero) : c.flipped(c.step(Op::int_equal, x, zero));
  }
  if (c.is_real()) return c.to == Kind::integer ? functions::to_int32(c.code, x) : no_term;
  if (c.to == Kind::real) return c.from == Kind::integer ? c.step(Op::to_float, x) : no_term;
  return x;  // integers of both signs share their bits
}

/// By repeated squaring.
int integer_power(const Call& c) {
  const auto exponent = c.instruction.attrs.get<std::int64_t>("exponent");
  if (!c.is_real()) return no_term;
  int result = no_term;
  int x = c.x[0];
  for (std::int64_t n = exponent; n != 0; n /= 2) {
    if (n % 2 != 0) result = result == no_term ? x : c.step(Op::mul, result, x);
    if (n / 2 != 0) x = c.step(Op::mul, x, x);
  }
  if (result == no_term) return c.code.constant(one);
  return exponent < 0 ? c.step(Op::div, c.code.constant(one), result) : result;
}

int full_of(const Call& c) {
  const AttrValue& value = c.instruction.attrs.at("value");
  if (const auto* real = std::get_if<double>(&value)) return c.code.number(c.number(*real));
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    return c.code.constant(static_cast<std::uint32_t>(*integer));
  }
  const auto* truth = std::get_if<bool>(&value);
  return truth == nullptr ? no_term : c.code.constant(*truth ? 0xFFFFFFFFU : 0U);
}

const std::map<std::string_view, Rule>& rules() {
  static const std::map<std::string_view, Rule> table = {
      {"abs", function(functions::magnitude)},
      {"add", of_numbers(Op::add, Op::int_add)},
      {"bitcast_convert", [](const Call& c) { return c.from == Kind::mask || c.to == Kind::mask ? no_term : c.x[0]; }},
      {"bitwise_and", of_bits(Op::bit_and)},
      {"bitwise_not", [](const Call& c) { return c.is_real() ? no_term : c.flipped(c.x[0]); }},
      {"bitwise_or", of_bits(Op::bit_or)},
      {"bitwise_xor", of_bits(Op::bit_xor)},
      {"ceil", of_reals(Op::ceil)},
      {"convert", convert_of},
      {"div", of_reals(Op::div)},
      {"equal", [](const Call& c) { return equality(c, true); }},
      {"erf", function(functions::erf)},
      {"erfc", function(functions::erfc)},
      {"exp", function(functions::exp)},
      {"exp2", function(functions::exp2)},
      {"expm1", function(functions::expm1)},
      {"floor", of_reals(Op::floor)},
      {"fma", of_reals(Op::fma)},
      {"full", full_of},
      {"greater", ordering(Order::greater)},
      {"greater_equal", ordering(Order::greater_equal)},
      {"integer_pow", integer_power},
      {"is_finite",
       [](const Call& c) {
         if (!c.is_real()) return no_term;
         return c.step(Op::less, functions::magnitude(c.code, c.x[0]), c.code.constant(0x7F800000U));
       }},
      {"less", ordering(Order::less)},
      {"less_equal", ordering(Order::less_equal)},
      {"log", function(functions::log)},
      {"log1p", function(functions::log1p)},
      {"logistic", function(functions::logistic)},
      {"maximum", [](const Call& c) { return extremum(c, true); }},
      {"minimum", [](const Call& c) { return extremum(c, false); }},
      {"mul", of_numbers(Op::mul, Op::int_mul)},
      {"neg", negative_of},
      {"not_equal", [](const Call& c) { return equality(c, false); }},
      {"round", of_reals(Op::round)},
      {"rsqrt",
       [](const Call& c) {
         return c.is_real() ? c.step(Op::div, c.code.constant(one), c.step(Op::sqrt, c.x[0])) : no_term;
       }},
      {"select", [](const Call& c) { return c.step(Op::select, c.x[0], c.x[1], c.x[2]); }},
      {"shift_left", of_words(Op::shift_left)},
      {"shift_right_arithmetic", of_words(Op::shift_sign)},
      {"shift_right_logical", of_words(Op::shift_right)},
      {"sign", function(functions::sign)},
      {"sqrt", of_reals(Op::sqrt)},
      {"stop_gradient", [](const Call& c) { return c.x[0]; }},
      {"sub", of_numbers(Op::sub, Op::int_sub)},
      {"tanh", function(functions::tanh)},
  };
  return table;
}

/// Computed as floats and rounded once. Integers have no way to bfloat16 that rounds once, bits are not a float32's.
bool computes_brains(std::string_view op, Kind from, Kind to) {
  const auto is_word = [](Kind kind) { return kind == Kind::integer || kind == Kind::natural; };
  return !is_word(from) && !is_word(to) && op != "fma" && op != "bitcast_convert";
}

/// Whether the result is a brain without rounding: a constant, or an operand that is one, but for its sign.
bool is_brain_already(const ElementLoop& loop, const ElementLoop::Instruction& instruction) {
  constexpr std::array chosen = {"abs", "full", "neg", "select", "stop_gradient", "maximum", "minimum"};
  if (std::ranges::count(chosen, instruction.op) != 0) return true;
  return instruction.op == "convert" && loop.dtype(instruction.operands.at(0)) != DType::float32;
}

std::optional<int> expand_one(Code& code, const ElementLoop& loop, const ElementLoop::Instruction& instruction,
                              const std::vector<int>& values) {
  const auto rule = rules().find(instruction.op);
  const std::optional<Kind> to = kind_of(instruction.dtype);
  if (rule == rules().end() || !to || instruction.operands.size() > 3) return std::nullopt;
  const bool gives_brain = *to == Kind::brain;
  const Kind computed = gives_brain ? Kind::real : *to;
  Call call{code, instruction, computed, computed, {-1, -1, -1}};
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    const std::optional<Kind> from = kind_of(loop.dtype(instruction.operands[i]));
    if (!from) return std::nullopt;
    const int x = values[static_cast<std::size_t>(instruction.operands[i])];
    const bool is_brain = *from == Kind::brain;
    if ((is_brain || gives_brain) && !computes_brains(instruction.op, *from, *to)) return std::nullopt;
    call.from = is_brain ? Kind::real : *from;
    call.x[i] = is_brain ? widened(code, x) : x;
  }
  const int step = rule->second(call);
  if (step != no_term && gives_brain && !is_brain_already(loop, instruction)) {
    return code.step(Op::round_bfloat16, step);
  }
  if (step == no_term) return std::nullopt;
  return step;
}

}  // namespace

std::optional<Loop> expand(const ElementLoop& loop) {
  Loop result;
  std::vector<int> values;
  for (const ElementLoop::Operand& operand : loop.operands()) {
    if (!kind_of(operand.dtype)) return std::nullopt;
    values.push_back(result.code.step(Op::load, -1, -1, -1, static_cast<std::uint32_t>(values.size())));
    result.operands.push_back({element_of(operand.dtype), false});
  }
  for (const ElementLoop::Instruction& instruction : loop.instructions()) {
    const std::optional<int> step = expand_one(result.code, loop, instruction, values);
    if (!step) return std::nullopt;
    values.push_back(*step);
  }
  for (const auto& [value, sum_over] : loop.results()) {
    if (!sum_over.empty() && loop.dtype(value) != DType::float32) return std::nullopt;
    result.values.push_back(values[static_cast<std::size_t>(value)]);
    result.results.push_back({element_of(loop.dtype(value)), false});
  }
  if (result.code.steps().size() > most_steps) return std::nullopt;
  return result;
}

}  // namespace lockstep::backend::jit
