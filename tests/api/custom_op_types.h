#pragma once

#include <functional>
#include <span>

#include <lockstep/lockstep.h>

// What the rules of a program's own ops take, and the functions of two arrays that they are held against.
namespace lockstep::tests {

using Leaves = std::span<const Array>;
using Types = std::span<const ArrayType>;
using Binary = std::function<Array(const Array&, const Array&)>;

}  // namespace lockstep::tests
