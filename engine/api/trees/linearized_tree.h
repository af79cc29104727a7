#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/api/trees/tree_trace.h"
#include "engine/transform/transforms.h"

// What the public transforms share.
namespace lockstep::api {

/// Takes arrays in order.
class Reader {
 public:
  explicit Reader(std::span<const Array> arrays) : arrays_(arrays) {}

  std::vector<Array> take(std::size_t n) {
    const auto taken = arrays_.subspan(next_, n);
    next_ += n;
    return {taken.begin(), taken.end()};
  }
  Array next() { return arrays_[next_++]; }

 private:
  std::span<const Array> arrays_;
  std::size_t next_ = 0;
};

/// Leaf by leaf: the next array where `present`, zeros like it elsewhere.
std::vector<Array> filled(const std::vector<ArrayType>& types, const std::vector<bool>& present, Reader& reader);

/// Flags for the leaves, false for captured arrays.
std::vector<bool> with_captured(std::vector<bool> flags, const TracedTree& traced);

/// Which leaves may be differentiated.
enum class Leaves : std::uint8_t { inexact, floats, complex };
/// The leaves of the arguments `argnums`. Throws ValueError where there is no such argument, DtypeError where a leaf is of
/// another dtype than the `allowed` ones.
std::vector<bool> active_leaves(std::string_view op, const FlatArguments& flat, const std::vector<ArrayType>& types,
                                const std::vector<int>& argnums, std::size_t arguments, Leaves allowed);
/// Throws DtypeError where a float or complex leaf of the result is not one that reverse mode takes: complex ones of a
/// holomorphic function, else floats.
void check_results(std::string_view op, const ArrayType& result, bool holomorphic);

/// Throws TraceError where tangents would have to pass a custom_vjp.
void check_forward_mode(std::string_view op, const ir::Function& tangents);

/// A function linearized at a point: its value there and what the way back or forth needs.
struct LinearizedTree {
  FlatArguments flat;
  std::vector<ArrayType> types;
  std::vector<bool> active;
  TracedTree traced;
  transform::Linearized parts;
  std::vector<Array> residuals;
  Tree value;

  std::vector<ArrayType> output_types() const { return traced.result_types(); }
};

/// `active`: the leaves to differentiate; empty: all float and complex ones.
std::shared_ptr<LinearizedTree> linearized(const TreeFunction& function, const std::vector<Tree>& primals,
                                           std::vector<bool> active);

}  // namespace lockstep::api
