#include <lockstep/types.h>

namespace lockstep {

std::string to_string(const ArrayType& type) {
  std::string text = std::string(short_name(type.dtype)) + to_string(type.shape);
  if (!type.varying.empty()) text += "{" + to_string(type.varying) + "}";
  return text;
}

}  // namespace lockstep
