#include <string>

#include <lockstep/error.h>
#include <lockstep/moved_from.h>

namespace lockstep::detail {

void refuse_moved_from(std::string_view what) {
  throw ValueError(std::string(what) +
                   ": it holds nothing: std::move took its value away, or it was given an empty function; expected one "
                   "that still has its value; use the object it was moved to, or copy it instead");
}

}  // namespace lockstep::detail
