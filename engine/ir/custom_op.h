#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/attrs.h>
#include <lockstep/backend/backend.h>

#include "engine/ir/primitive.h"

namespace lockstep::ir {

using namespace backend;

/// An op that a program brings along, the attribute `op` of the primitive custom_call. It equals itself alone, and no text
/// holds it.
class CustomOp : public AttrObject {
 public:
  explicit CustomOp(std::string name);

  const std::string& name() const { return name_; }
  /// "custom op "name"", as messages call it.
  std::string text() const;

  /// Result types for operands of one example.
  virtual std::vector<ArrayType> infer(std::span<const ArrayType> operands) const = 0;
  virtual std::unique_ptr<Kernel> make_kernel(const KernelRequest& request) const = 0;
  /// Tangents of the results of an equation; nothing where the op has no derivative.
  virtual std::optional<std::vector<Tangent>> tangents(const JvpContext& context) const = 0;
  /// What the op is over a batch; nothing where it has no rule of its own.
  virtual std::optional<std::vector<Value>> batch(const BatchContext& context) const = 0;

  enum class Mapping : std::uint8_t { refused, in_turn, at_once };
  /// How kernels take operands with mapped dimensions, where there is no rule.
  virtual Mapping mapping() const = 0;

  std::uint64_t hash() const final;
  bool equals(const AttrObject& other) const final { return this == &other; }
  std::string print(int indent) const final;

 private:
  std::string name_;
  std::uint64_t number_;
};

using CustomOpPtr = std::shared_ptr<const CustomOp>;

/// Attributes of custom_call. Operands carry the mapped dimensions that `mapped` marks in front, outermost first; results
/// carry all.
struct CustomCall {
  CustomOpPtr op;
  std::vector<std::int64_t> sizes = {};                ///< Of the mapped dimensions.
  std::vector<std::vector<std::int64_t>> mapped = {};  ///< For each, 1 or 0 for each operand.

  /// Throws IrError where they do not fit together.
  static CustomCall of(const Attrs& attrs, std::size_t operands);
  Attrs attrs() const;
};

/// The op among the attributes, or null.
CustomOpPtr custom_op(const Attrs& attrs);
/// The kernel that an op of a program's own brings along; null for all other ops.
std::unique_ptr<Kernel> custom_kernel(const KernelRequest& request);

}  // namespace lockstep::ir
