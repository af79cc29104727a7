#pragma once

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/tree.h>

// Numbers that are sums over all leaves, added in order of path, in at least float32: rank 0.
namespace lockstep::optim {

/// The sum of all elements.
LOCKSTEP_API Array sum_over_leaves(const Tree& tree);
/// The sum of products of real elements.
LOCKSTEP_API Array inner_product(const Tree& a, const Tree& b);
/// |u|^2.
LOCKSTEP_API Array squared_norm(const Tree& updates);
/// Leaf by leaf a + factor b, in at least float32.
LOCKSTEP_API Tree plus(const Tree& a, const Array& factor, const Tree& b);
/// The dtype of such sums over trees like this one.
LOCKSTEP_API DType dtype_of_sums(const Tree& params);

}  // namespace lockstep::optim
