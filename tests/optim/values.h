#pragma once

#include <vector>

// Numbers of gradients, parameters and updates.
namespace lockstep::tests {

using Values = std::vector<double>;

}  // namespace lockstep::tests
