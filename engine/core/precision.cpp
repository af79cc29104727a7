#include <string>

#include <lockstep/error.h>
#include <lockstep/precision.h>

#include "engine/core/quoting.h"

namespace lockstep {

std::string_view name(Precision precision) { return precision == Precision::bfloat16 ? "bfloat16" : "float32"; }

Precision parse_precision(std::string_view text) {
  for (const Precision precision : {Precision::float32, Precision::bfloat16}) {
    if (text == name(precision)) return precision;
  }
  throw ValueError("precision: got " + quoted(text) + ", expected float32 or bfloat16");
}

}  // namespace lockstep
