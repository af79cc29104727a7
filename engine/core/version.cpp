#include <lockstep/version.h>

namespace lockstep {

std::string_view version() { return "0.1.0"; }

}  // namespace lockstep
