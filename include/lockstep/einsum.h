#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include <lockstep/array.h>
#include <lockstep/export.h>

namespace lockstep {

/// Einstein's summation as numpy.einsum writes it: einsum("bij,bjk->bik", {a, b}). A subscript (a letter) that occurs twice
/// in one operand takes its diagonal; one that is not among the result's is summed over. Without "->" the result has, in
/// alphabetical order, the subscripts that occur once. "..." stands for dimensions that broadcast; without "->" they come
/// first. Operands are promoted to one dtype. Products are taken two at a time, the pair first whose result is smallest
/// against what it replaces. Throws ValueError for a text that is no such equation, ShapeError where extents differ.
LOCKSTEP_API Array einsum(std::string_view equation, const ArrayOperands& operands);

}  // namespace lockstep
