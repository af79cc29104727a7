#pragma once

#include "engine/ir/builder.h"

namespace lockstep::ir {

/// A Var together with the builder that owns it, so that rules read as formulas. The ops on Values are in
/// engine/ops/values.h.
class Value {
 public:
  Value(Builder& builder, Var var) : builder_(&builder), var_(var) {}

  Builder& builder() const { return *builder_; }
  Var var() const { return var_; }
  const ArrayType& type() const { return builder_->type(var_); }
  DType dtype() const { return type().dtype; }
  const Shape& shape() const { return type().shape; }
  int rank() const { return shape().rank(); }

 private:
  Builder* builder_;
  Var var_;
};

}  // namespace lockstep::ir
