#pragma once

#include <lockstep/array.h>
#include <lockstep/tree.h>

// Numbers that are sums over all leaves, added in order of path, in at least float32: rank 0.
namespace lockstep::optim {

/// The sum of all elements.
Array sum_over_leaves(const Tree& tree);
/// The sum of products of real elements.
Array inner_product(const Tree& a, const Tree& b);
/// |u|^2.
Array squared_norm(const Tree& updates);
/// Leaf by leaf a + factor b, in at least float32.
Tree plus(const Tree& a, const Array& factor, const Tree& b);
/// The dtype of such sums over trees like this one.
DType dtype_of_sums(const Tree& params);

}  // namespace lockstep::optim
