#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/array.h>

// The public functions as lines of tables, each with the expression of JAX that it is held against.
namespace lockstep::tests::functions {

using Arrays = std::vector<Array>;
using A = const Array&;

inline constexpr double inf = std::numeric_limits<double>::infinity();
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();

inline const std::vector<DType> floats = {float32, float64};
inline const std::vector<DType> integers = {int32, int64, uint8, uint32};
inline const std::vector<DType> complexes = {complex64, complex128};
inline const std::vector<DType> booleans = {bool_};
std::vector<DType> operator+(std::vector<DType> a, const std::vector<DType>& b);
inline const std::vector<DType> real_numbers = floats + integers;
inline const std::vector<DType> inexact_numbers = floats + complexes;
inline const std::vector<DType> numbers = real_numbers + complexes;
inline const std::vector<DType> everything = numbers + booleans;

/// An operand: numbers drawn from [low, high), numbers given, or what is special in its dtype.
struct Input {
  Shape shape;
  double low = -1;
  double high = 1;
  bool distinct = false;                      ///< Evenly spaced and shuffled, so that there are no ties.
  std::vector<double> values = {};            ///< Instead of drawn numbers.
  bool edges = false;                         ///< Special values; its derivatives are not compared.
  std::optional<DType> dtype = std::nullopt;  ///< Nothing: the one that the line is run for.

  Input of(DType held) const;
};
Input drawn(const Shape& shape, double low = -2, double high = 2);
Input distinct(const Shape& shape, double low = -2, double high = 2);
Input given(const std::vector<double>& values);
Input given(const std::vector<double>& values, const Shape& shape);
/// Integers, whatever dtype the line is run for.
Input whole(const std::vector<double>& values, DType dtype = int32);
Input whole(const std::vector<double>& values, const Shape& shape, DType dtype = int32);
/// bool drawn evenly.
Input mask(const Shape& shape);
/// NaN, infinities, zeros of both signs, large and small numbers; the extremes of integers. As a column for the first of
/// two operands, so that every one meets every other.
Input edges();
Input edge_column();

/// What a line computes, as a function of all operands.
class Call {
 public:
  template <class F>
  requires(!std::is_same_v<F, Call>) Call(F f) : f_(fitted(f)) {}  // NOLINT: implicit by design
  Arrays operator()(const Arrays& x) const { return f_(x); }

 private:
  static Arrays results(Arrays arrays) { return arrays; }
  static Arrays results(Array array) { return {std::move(array)}; }
  static Arrays results(std::pair<Array, Array> both) { return {std::move(both.first), std::move(both.second)}; }

  template <class F>
  static std::function<Arrays(const Arrays&)> fitted(F f) {
    if constexpr (std::is_invocable_v<F>) {
      return [f](const Arrays&) { return results(f()); };
    } else if constexpr (std::is_invocable_v<F, A>) {
      return [f](const Arrays& x) { return results(f(x[0])); };
    } else if constexpr (std::is_invocable_v<F, A, A>) {
      return [f](const Arrays& x) { return results(f(x[0], x[1])); };
    } else if constexpr (std::is_invocable_v<F, A, A, A>) {
      return [f](const Arrays& x) { return results(f(x[0], x[1], x[2])); };
    } else {
      return [f](const Arrays& x) { return results(f(x[0], x[1], x[2], x[3])); };
    }
  }

  std::function<Arrays(const Arrays&)> f_;
};

/// More room than a dtype's own bound, of forward values (derivatives have ten times as much).
struct Room {
  double of_32 = 0;
  double of_64 = 0;
  std::string_view reason = {};
};

struct Options {
  std::vector<DType> dtypes = floats;
  std::string_view patched = {};            ///< Where the expression is not JAX's function alone, and why.
  std::string_view no_derivative = {};      ///< Why derivatives are not compared.
  std::string_view no_vmap = {};            ///< Why batches are not.
  std::vector<std::size_t> underived = {};  ///< Operands without a derivative.
  Room room = {};
  std::string_view limits = {};  ///< Which number stands where JAX has NaN or an overflow; held by a test of its own.
};

inline const Options any_dtype = {.dtypes = everything};
/// Of lgamma and what is made of it.
inline constexpr Room lgamma_room{1e-5, 0, "JAX sums lgamma's series in float32, Lockstep in float64"};

struct Line {
  std::string_view function;  ///< As a user calls it, without `lockstep::`.
  std::string_view jax;       ///< A Python expression of the operands x, y, z and w, and of the dtype `dtype`.
  std::vector<Input> inputs;
  Call call;
  Options options = {};
  std::string_view family = {};  ///< Which table it is of; its values are in the file of that name.
};
using Lines = std::vector<Line>;

Lines elementwise_lines();
Lines edge_lines();
Lines reduction_lines();
Lines order_lines();
Lines activation_lines();
Lines manipulation_lines();
Lines indexing_lines();
Lines linalg_lines();
Lines signal_lines();
Lines numerics_lines();
Lines solver_lines();
Lines arithmetic_lines();
Lines training_lines();
Lines dtype_lines();
Lines kink_lines();
Lines image_lines();

/// All tables, one after the other.
const Lines& table();

}  // namespace lockstep::tests::functions
