#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/owned.h>
#include <lockstep/parallel.h>
#include <lockstep/plan.h>
#include <lockstep/tree.h>

namespace lockstep {

class Function;
namespace random {
LOCKSTEP_API void check_key_reuse(const Function& function);  ///< Of random.h.
}

/// A traced, closed program, for reading and checking.
class LOCKSTEP_API Function {
 public:
  struct Impl;
  explicit Function(std::shared_ptr<const Impl> impl);

  std::string to_string() const;
  std::uint64_t hash() const;
  std::vector<ArrayType> input_types() const;
  std::vector<ArrayType> output_types() const;
  /// How many equations of an op there are, sub-functions included.
  std::int64_t count(std::string_view op) const;
  /// Compiled and run.
  std::vector<Array> operator()(const std::vector<Array>& arguments) const;
  /// Evaluated equation by equation, without compilation.
  std::vector<Array> eval(const std::vector<Array>& arguments) const;
  Plan plan() const;
  /// What will make a NaN of a gradient although the value is finite: each `where` whose branch that is not taken has
  /// no finite derivative, so that 0 * infinity comes back from it. One text a place: the op, the layer, values at
  /// which it happens, what to write instead. Found by differentiating the element-wise part around each `where` at
  /// sample values.
  std::vector<std::string> lint() const;

 private:
  friend void random::check_key_reuse(const Function& function);

  detail::SharedObject<const Impl> impl_;
};

/// Traces a function at the types of example arguments (their values are not read).
LOCKSTEP_API Function trace(const TreeFunction& function, const std::vector<Tree>& examples);

template <class F, class... Args>
Function trace_function(const F& function, const Args&... examples) {
  return trace(
      [&](const std::vector<Tree>& trees) {
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
          return to_tree(function(from_tree<Args>(trees[I])...));
        }
        (std::index_sequence_for<Args...>{});
      },
      {to_tree(examples)...});
}

namespace detail {
/// The arrays that a traced function captured, which are its hidden last inputs.
LOCKSTEP_API std::vector<Array> captured_arrays(const Function& function);
}  // namespace detail

/// Reads a printed program. Throws IrError naming line and column.
LOCKSTEP_API Function parse_function(std::string_view text);

/// Collectives executed by this process since it started, one per reduction (not per shard or device).
LOCKSTEP_API std::int64_t collectives_executed();

}  // namespace lockstep
