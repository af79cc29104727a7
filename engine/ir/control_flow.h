#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/export.h>

#include "engine/ir/sub_functions.h"

// What the ops with sub-functions mean by their attributes, for all who read them.
namespace lockstep::ir {

/// scan: operands (const..., initial carry..., xs...), body (const..., carry..., x...) -> (carry..., y...), results (final
/// carry..., ys...). xs and ys have a leading dimension of `length`; `reverse` walks it from the end, ys in xs' order.
struct LOCKSTEP_API Scan {
  FunctionPtr body;
  std::int64_t length = 0;
  std::size_t consts = 0;
  std::size_t carries = 0;
  bool reverse = false;
  std::int64_t unroll = 1;  ///< How many iterations the executable writes out at once: speed alone.

  /// Throws IrError where an attribute is absent, of another kind or out of range.
  static Scan of(const Attrs& attrs);
  Attrs attrs() const;
  std::size_t xs() const { return body->inputs().size() - consts - carries; }
  std::size_t ys() const { return body->outputs().size() - carries; }
};

/// while_loop: operands (const of cond..., const of body..., initial carry...), cond (const..., carry...) -> bool, body
/// (const..., carry...) -> carry..., results the final carry.
struct LOCKSTEP_API WhileLoop {
  FunctionPtr cond;
  FunctionPtr body;
  std::size_t cond_consts = 0;
  std::size_t body_consts = 0;

  static WhileLoop of(const Attrs& attrs);
  Attrs attrs() const;
  std::size_t carries() const { return body->outputs().size(); }
};

/// cond: operands (int32 index, argument...), every branch (argument...) -> (result...). The index is clamped. Attributes
/// branch0, branch1, ...: of a two-way cond, branch0 is the one for false.
struct LOCKSTEP_API Cond {
  std::vector<FunctionPtr> branches;

  static Cond of(const Attrs& attrs);
  Attrs attrs() const;
};

}  // namespace lockstep::ir
