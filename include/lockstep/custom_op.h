#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/array_view.h>
#include <lockstep/custom_derivatives.h>
#include <lockstep/error.h>
#include <lockstep/export.h>
#include <lockstep/owned.h>

// Ops of a program's own: a kernel in C++, or a callback on the host, called from programs that are compiled,
// differentiated, batched, scanned, rematerialised and sharded as any other op is. The guide is
// docs/guides/custom_ops.md.
//
// What a kernel or callback promises, for the engine relies on it and cannot check it:
//  - Pure: results depend on the operands' elements and types alone, every element of each result is written, and nothing
//    else is changed. Calls may be left out, merged, repeated (remat) or moved out of loops. What must happen once, or in
//    order, is debug_print or error_if.
//  - The same bits for the same operands, on whatever thread, if the program is to be reproducible.
//  - Safe from several threads at once: each device of a mesh calls it for its shards. It runs on the calling thread; a
//    library that starts threads of its own takes cores from the devices.
//  - What it captures lives as long as a compiled program may call it, which is longer than the CustomOp: capture by value
//    or by shared_ptr.
namespace lockstep {

/// What a kernel or a callback threw that is no lockstep::Error, with its text and the op's name.
class LOCKSTEP_API CustomOpError : public Error {
 public:
  using Error::Error;
  ~CustomOpError() override;
};

/// Operands and results of one run of a kernel: row-major memory on the CPU, 64-byte aligned but for examples of a
/// batch that are run one by one.
class LOCKSTEP_API KernelCall {
 public:
  KernelCall(std::string_view op, std::span<const ArrayView> operands, std::span<const ArrayView> results,
             int mapped_dims);

  std::size_t operands() const;
  std::size_t results() const;
  /// Throw ValueError where there is no such operand or result.
  const Shape& operand_shape(std::size_t i) const;
  const Shape& result_shape(std::size_t i) const;
  DType operand_dtype(std::size_t i) const;
  DType result_dtype(std::size_t i) const;
  /// How many leading dimensions vmap has put before those of one example (VmapMethod::broadcast_all); else 0.
  int mapped_dims() const { return mapped_dims_; }

  /// The elements in row-major order. T is the element type; float16 and bfloat16 are read as their bits, uint16_t.
  /// Throws DtypeError for another T, ValueError where there is no such operand or result.
  template <class T>
  std::span<const T> operand(std::size_t i) const {
    return {static_cast<const T*>(operand_data(i, dtype_of<T>())), operand_size(i)};
  }
  template <class T>
  std::span<T> result(std::size_t i) const {
    return {static_cast<T*>(result_data(i, dtype_of<T>())), result_size(i)};
  }

 private:
  const void* operand_data(std::size_t i, DType wanted) const;
  void* result_data(std::size_t i, DType wanted) const;
  std::size_t operand_size(std::size_t i) const;
  std::size_t result_size(std::size_t i) const;
  const ArrayView& at(std::span<const ArrayView> views, std::size_t i, std::string_view role) const;
  void* data(std::span<const ArrayView> views, std::size_t i, std::string_view role, DType wanted) const;

  std::string_view op_;
  std::span<const ArrayView> operands_;
  std::span<const ArrayView> results_;
  int mapped_dims_;
};

/// How an op without a batching rule is batched.
enum class VmapMethod : std::uint8_t {
  refuse,         ///< vmap is a TraceError that says what to set.
  sequential,     ///< The kernel runs once for each example, in order; operands without a batch are not repeated.
  broadcast_all,  ///< The kernel runs once; all operands and results have the batch as leading dimension.
};

/// What an op is, and what is known of it.
struct CustomOpOptions {
  std::string name;  ///< In programs and messages.

  /// Result types for the operands' types, of one example and one shard; `varying` is filled in by the engine. Called
  /// whenever a program is traced, so it must be a function of its argument. What it throws names the op.
  std::function<std::vector<ArrayType>(std::span<const ArrayType> operands)> infer;

  /// One of both. A kernel reads and writes memory in place; a callback gets concrete arrays and returns such, which
  /// are copied and checked against `infer`, and may call the library's functions.
  std::function<void(const KernelCall& call)> kernel = {};
  std::function<std::vector<Array>(std::span<const Array> operands)> callback = {};

  VmapMethod vmap_method = VmapMethod::refuse;
  /// A rule in its place: operands, those marked in `batched` with the batch of `size` as dimension 0, to results that
  /// all have it. It is traced; arrays that it captures are refused.
  std::function<std::vector<Array>(std::span<const Array> operands, const std::vector<bool>& batched,
                                   std::int64_t size)>
      vmap = {};

  /// At most one of both; without, derivatives are a TraceError. They are traced and may call this op or others. vjp:
  /// cotangents of the results to one cotangent for each operand, an empty Array where it is zero or the operand an
  /// integer. Reverse mode alone.
  std::function<std::vector<Array>(std::span<const Array> operands, std::span<const Array> results,
                                   std::span<const Array> cotangents)>
      vjp = {};
  /// Tangents of the operands to those of the results, linear in them by ops that can be transposed. Both modes.
  std::function<std::vector<Array>(std::span<const Array> operands, std::span<const Array> results,
                                   std::span<const Array> tangents)>
      jvp = {};
  RuleCheck check = RuleCheck::in_debug_builds;  ///< When the derivative is compared with differences.
};

/// An op of a program's own. A handle: copies are the same op, two made alike are two ops, which jit compiles anew; so
/// make it once. Programs that call it keep what it needs.
class LOCKSTEP_API CustomOp {
 public:
  /// Throws ValueError where the name, the shape rule or the kernel is missing, or where two exclude each other.
  explicit CustomOp(CustomOpOptions options);

  /// The results: staged in an open trace, else compiled and run. Throws what `infer` throws, with the op's name; when
  /// run, what the kernel throws: a lockstep::Error of the same kind, anything else as CustomOpError.
  std::vector<Array> call(std::span<const Array> operands) const;
  /// The one result. Throws ValueError where there are more.
  template <class... Operands>
  Array operator()(const Operands&... operands) const {
    return one(std::vector<Array>{Array(operands)...});
  }
  const std::string& name() const;

 private:
  class Impl;
  Array one(const std::vector<Array>& operands) const;

  detail::SharedObject<const Impl> impl_;
};

/// How a callback is called in messages, and how it is batched.
struct PureCallbackOptions {
  std::string name = "pure_callback";
  VmapMethod vmap_method = VmapMethod::refuse;
};

/// `callback` on concrete arrays, on the host, whenever this place of the program is run; `results` are the types that
/// it returns. Without a trace it is called at once. The callback is another op each time this is called: hold a
/// CustomOp with a `callback` where programs are traced again and again. Derivatives are refused: wrap the function
/// that calls it in custom_jvp or custom_vjp. Throws ShapeError, DtypeError or ValueError where the results are not of
/// their types, CustomOpError for what the callback throws.
LOCKSTEP_API std::vector<Array> pure_callback(std::function<std::vector<Array>(std::span<const Array>)> callback,
                                              std::vector<ArrayType> results, std::span<const Array> operands,
                                              PureCallbackOptions options = {});
/// The same with one result.
LOCKSTEP_API Array pure_callback(std::function<Array(std::span<const Array>)> callback, const ArrayType& result,
                                 std::span<const Array> operands, PureCallbackOptions options = {});
/// With the operands in braces.
LOCKSTEP_API Array pure_callback(std::function<Array(std::span<const Array>)> callback, const ArrayType& result,
                                 std::initializer_list<Array> operands, PureCallbackOptions options = {});

}  // namespace lockstep
