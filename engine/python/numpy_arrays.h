#pragma once

#include <string>

#include <nanobind/nanobind.h>

#include <lockstep/array.h>

namespace lockstep::python {

/// NumPy's array over the memory of this one, which it keeps and may not write. Throws DtypeError for keys, and for
/// bfloat16 where ml_dtypes is not installed.
nanobind::object numpy_of(const Array& array);
/// An Array of ours, of NumPy's, of a library that speaks DLPack, or of numbers. Memory that is aligned to 64 bytes and
/// row-major is shared, other memory is copied. Numbers without a dtype of their own take `wanted`, or NumPy's for none.
/// Throws DtypeError for a dtype without a name here.
Array array_of(nanobind::handle given, const DType* wanted = nullptr);

}  // namespace lockstep::python
