#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/attrs.h>
#include <lockstep/call_site.h>
#include <lockstep/types.h>

namespace lockstep::ir {

struct Primitive;

/// A value of a Function: an index into its table of types.
struct Var {
  std::uint32_t id = 0;
  auto operator<=>(const Var&) const = default;
};

/// Mesh axes bound around a function body, in mesh order.
class AxisSizes {
 public:
  struct Axis {
    std::string name;
    std::int64_t size = 1;
    bool operator==(const Axis&) const = default;
  };

  AxisSizes() = default;
  explicit AxisSizes(std::vector<Axis> axes) : axes_(std::move(axes)) {}

  bool empty() const { return axes_.empty(); }
  bool has(std::string_view name) const;
  /// Throws MeshError "unbound axis" naming `op`, the axes that are bound, and how to bind one.
  std::int64_t size(std::string_view name, std::string_view op) const;
  /// Product over a set of axes.
  std::int64_t size(const AxisSet& names, std::string_view op) const;
  std::int64_t total() const;
  /// The other axes.
  AxisSizes without(std::string_view name) const;
  const std::vector<Axis>& axes() const { return axes_; }
  bool operator==(const AxisSizes&) const = default;

 private:
  std::vector<Axis> axes_;
};

/// Where an equation came from; printed in messages, part of no hash.
struct Provenance {
  std::shared_ptr<const std::string> scope;  ///< Layer path, or null.
  bool backward = false;                     ///< Emitted by `transpose`.
  detail::SourceLocation at = {};            ///< Where the program called the op; line 0: not known.
};

struct Equation {
  const Primitive* primitive = nullptr;
  Attrs attrs;
  std::vector<Var> inputs;
  std::vector<Var> outputs;
  Provenance provenance;
};

/// A closed, immutable, typed program in A-normal form (a jaxpr). Constants are equations (`full`), captured arrays are
/// inputs.
class Function final : public AttrObject {
 public:
  Function(AxisSizes axes, std::vector<ArrayType> types, std::vector<Var> inputs, std::vector<Equation> equations,
           std::vector<Var> outputs);

  const AxisSizes& axes() const { return axes_; }
  const std::vector<ArrayType>& types() const { return types_; }
  const ArrayType& type(Var v) const { return types_[v.id]; }
  const std::vector<Var>& inputs() const { return inputs_; }
  const std::vector<Equation>& equations() const { return equations_; }
  const std::vector<Var>& outputs() const { return outputs_; }
  std::vector<ArrayType> input_types() const;
  std::vector<ArrayType> output_types() const;

  /// Structural: equal for two functions that differ only in the numbering of their vars. Computed once.
  std::uint64_t hash() const override;
  bool equals(const AttrObject& other) const override;
  std::string print(int indent) const override;

 private:
  AxisSizes axes_;
  std::vector<ArrayType> types_;
  std::vector<Var> inputs_;
  std::vector<Equation> equations_;
  std::vector<Var> outputs_;
  std::uint64_t hash_ = 0;
};

using FunctionPtr = std::shared_ptr<const Function>;

}  // namespace lockstep::ir
