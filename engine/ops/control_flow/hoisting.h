#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/ir/builder.h"
#include "engine/ir/control_flow.h"

// What a scan need not compute in each iteration, computed in front of it.
namespace lockstep::ops::control_flow {

enum class Hoist : std::uint8_t {
  /// What a scan means, wherever it runs: what is the same each time, keys and draws aside, and products of a row that it
  /// reads with what is the same each time, which are one product of all rows. That one may round otherwise than many of
  /// few rows, and so no pass makes it.
  traced,
  compiled,  ///< What keeps every bit: what is the same each time.
};

/// The results of the scan, given what it need not compute; nothing where it has all that it may be given.
std::optional<std::vector<ir::Var>> hoisted_scan(ir::Builder& builder, const ir::Scan& scan,
                                                 std::span<const ir::Var> operands, Hoist hoist);

/// (operand...) -> (result...): what a scan is traced as, so that its derivatives are made of it, too, and one scan has
/// one value, eagerly and compiled. Scans inside of its body likewise.
ir::FunctionPtr traced_scan(const ir::Scan& scan, std::span<const ArrayType> operands);

}  // namespace lockstep::ops::control_flow
