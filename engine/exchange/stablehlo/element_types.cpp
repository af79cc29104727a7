#include <array>
#include <string>

#include <lockstep/error.h>

#include "engine/exchange/stablehlo/mlir.h"

namespace lockstep::exchange::mlir {
namespace {

struct ElementName {
  std::string_view name;
  DType dtype;
};
constexpr std::array<ElementName, 15> names = {{{"i1", DType::bool_},
                                                {"i8", DType::int8},
                                                {"i16", DType::int16},
                                                {"i32", DType::int32},
                                                {"i64", DType::int64},
                                                {"ui8", DType::uint8},
                                                {"ui16", DType::uint16},
                                                {"ui32", DType::uint32},
                                                {"ui64", DType::uint64},
                                                {"f16", DType::float16},
                                                {"bf16", DType::bfloat16},
                                                {"f32", DType::float32},
                                                {"f64", DType::float64},
                                                {"complex<f32>", DType::complex64},
                                                {"complex<f64>", DType::complex128}}};

}  // namespace

std::optional<DType> element_type(std::string_view name) {
  for (const ElementName& known : names) {
    if (known.name == name) return known.dtype;
  }
  return std::nullopt;
}

std::string element_name(DType dtype) {
  for (const ElementName& known : names) {
    if (known.dtype == dtype) return std::string(known.name);
  }
  throw IrError("[to_stablehlo] dtype " + std::string(name(dtype)) + " has no form in StableHLO; pass key_data(key)");
}

}  // namespace lockstep::exchange::mlir
