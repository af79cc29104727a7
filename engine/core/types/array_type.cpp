#include <lockstep/error.h>
#include <lockstep/types.h>

namespace lockstep {

std::string to_string(const ArrayType& type) {
  std::string text = std::string(short_name(type.dtype)) + to_string(type.shape);
  if (!type.varying.empty()) text += "{" + to_string(type.varying) + "}";
  return text;
}

void ArrayType::refuse_bytes() const {
  throw ShapeError("type " + to_string(*this) +
                   " has more bytes than fit 63 bits; expected an array that memory holds; " + "give smaller extents");
}

}  // namespace lockstep
