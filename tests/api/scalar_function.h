#pragma once

#include <functional>

#include <lockstep/array.h>

// The type of the functions whose derivatives are compared.
namespace lockstep::tests {

/// A function of an array whose derivatives are compared.
using ScalarFunction = std::function<Array(const Array&)>;

}  // namespace lockstep::tests
