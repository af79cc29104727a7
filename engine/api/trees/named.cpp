// Values by name: what the library makes of the template once for all programs.
#include <string>

#include <lockstep/error.h>
#include <lockstep/named.h>

namespace lockstep {

void detail::refuse_repeated_name(const std::string& name) {
  throw ValueError("the name \"" + name + "\" is given twice; give each name once, or one of its values is lost");
}

template class Named<std::string>;
template class Named<double>;

}  // namespace lockstep
