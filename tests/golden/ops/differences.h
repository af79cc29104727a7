#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/types.h>

#include "tests/golden/ops/cases.h"

// Where Lockstep and JAX are not compared, or not as closely as elsewhere, each with its reason.
namespace lockstep::tests::golden {

struct Difference {
  std::string_view op;
  std::vector<Way> ways;      ///< Not compared; empty: none is.
  std::vector<int> operands;  ///< With operands, only their derivatives are left out, of every way.
  std::string_view reason;
  bool (*where)(const ir::Sample&) = nullptr;  ///< The samples that it is about; null: all.
};
std::span<const Difference> differences();

bool compares(std::string_view op, Way way, const ir::Sample& sample);
/// Whether anything of it is.
bool compares_any(std::string_view op);
std::vector<int> underived_operands(std::string_view op);

/// What two values may differ by: |a - b| <= bound * (1 + |b|), as JAX's own tests ask of a dtype. Zero: equal bits.
double bound(std::string_view op, Way way, DType dtype);
/// The ops whose bound is wider than their dtype's, as rows of a table.
std::string rooms_table();

}  // namespace lockstep::tests::golden
