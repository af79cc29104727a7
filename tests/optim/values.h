#pragma once

#include <vector>

namespace lockstep::tests {

using Values = std::vector<double>;

}  // namespace lockstep::tests
