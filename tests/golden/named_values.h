#pragma once

#include <map>
#include <string>
#include <vector>

// Numbers that another library computed, by name, as the text files hold them.
namespace lockstep::tests {

using Values = std::vector<double>;
/// The lines behind a name, by what stands before their bar.
using NamedValues = std::map<std::string, Values>;

}  // namespace lockstep::tests
