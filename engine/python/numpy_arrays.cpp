#include "engine/python/numpy_arrays.h"

#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <lockstep/dlpack.h>
#include <lockstep/error.h>

namespace lockstep::python {

namespace nb = nanobind;

namespace {

/// What an imported tensor keeps alive.
struct Borrowed {
  dlpack::ManagedTensor managed;
  nb::object owner;
  std::vector<std::int64_t> shape;
};

/// Buffers go wherever the last array over them goes, with or without Python's lock, and some when Python has ended.
void give_back(dlpack::ManagedTensor* managed) {
  std::unique_ptr<Borrowed> borrowed(static_cast<Borrowed*>(managed->context));
  if (!nb::is_alive()) {
    borrowed->owner.release();
    return;
  }
  const nb::gil_scoped_acquire lock;
  borrowed.reset();
}

dlpack::DataType element_of(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  const auto code = dtype == DType::bool_      ? Code::Bool
                    : dtype == DType::bfloat16 ? Code::Bfloat
                    : is_float(dtype)          ? Code::Float
                    : is_complex(dtype)        ? Code::Complex
                    : is_signed_integer(dtype) ? Code::Int
                                               : Code::UInt;
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * size_of(dtype)), 1};
}

/// `ml_dtypes.bfloat16`. Throws DtypeError where it is not installed.
nb::object bfloat16_of_numpy() {
  try {
    return nb::module_::import_("ml_dtypes").attr("bfloat16");
  } catch (const nb::python_error&) {
    throw DtypeError(
        "[python] the array is bfloat16, for which NumPy has no dtype; install ml_dtypes (pip install ml_dtypes), or "
        "convert it to float32 before it is exported");
  }
}

Array from_capsule(nb::handle capsule) {
  constexpr const char* own = "dltensor";
  auto* managed = static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), own));
  if (managed == nullptr) throw nb::python_error();
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  return from_dlpack(dlpack::Managed(managed));
}

Array from_numpy(nb::object given) {
  const nb::module_ numpy = nb::module_::import_("numpy");
  if (!nb::cast<bool>(given.attr("dtype").attr("isnative"))) {
    given = given.attr("astype")(given.attr("dtype").attr("newbyteorder")("="));
  }
  given = numpy.attr("asarray")(given, nb::arg("order") = "C");
  const auto dtype_name = nb::cast<std::string>(given.attr("dtype").attr("name"));
  const DType dtype = parse_dtype(dtype_name);
  auto borrowed = std::make_unique<Borrowed>();
  for (nb::handle extent : given.attr("shape")) borrowed->shape.push_back(nb::cast<std::int64_t>(extent));
  dlpack::Tensor& tensor = borrowed->managed.tensor;
  const auto address = nb::cast<std::uintptr_t>(given.attr("__array_interface__")["data"][0]);
  tensor.data = reinterpret_cast<void*>(address);  // NOLINT: that is how NumPy tells it
  tensor.ndim = static_cast<std::int32_t>(borrowed->shape.size());
  tensor.dtype = element_of(dtype);
  tensor.shape = borrowed->shape.data();
  borrowed->owner = std::move(given);
  borrowed->managed.context = borrowed.get();
  borrowed->managed.deleter = give_back;
  return from_dlpack(dlpack::Managed(&borrowed.release()->managed));
}

template <class T>
nb::capsule capsule_of(std::unique_ptr<T, dlpack::Release> tensor, const char* name) {
  PyObject* capsule = PyCapsule_New(tensor.get(), name, [](PyObject* object) {
    // A consumer renames the capsule, and calls the deleter itself.
    const char* now = PyCapsule_GetName(object);
    for (const char* own : {"dltensor", "dltensor_versioned"}) {
      if (now == nullptr || std::string_view(now) != own) continue;
      dlpack::Release()(static_cast<T*>(PyCapsule_GetPointer(object, own)));
    }
  });
  if (capsule == nullptr) throw nb::python_error();
  static_cast<void>(tensor.release());
  return nb::steal<nb::capsule>(capsule);
}

Array copied(const Array& array) { return from_bytes(array.type(), array.to_bytes()); }

nb::capsule exported(const Array& array, nb::handle max_version, nb::handle copy) {
  const bool copies = !copy.is_none() && nb::cast<bool>(copy);
  if (!max_version.is_none() && nb::cast<int>(max_version[0]) >= 1) {
    return capsule_of(to_dlpack_versioned(copies ? copied(array) : array), "dltensor_versioned");
  }
  // This form cannot say that a consumer must not write, so it gets memory of its own.
  return capsule_of(to_dlpack(copied(array)), "dltensor");
}

nb::tuple extents(const Shape& shape) {
  nb::list list;
  for (const std::int64_t extent : shape.dims()) list.append(extent);
  return nb::tuple(list);
}

}  // namespace

nb::object numpy_of(const Array& array) {
  const bool narrow = array.dtype() == DType::bfloat16;
  const nb::object narrow_dtype = narrow ? bfloat16_of_numpy() : nb::object();
  dlpack::Managed managed = to_dlpack(array);
  const dlpack::Tensor tensor = managed->tensor;
  std::vector<std::size_t> shape(tensor.shape, tensor.shape + tensor.ndim);
  const nb::capsule owner(managed.get(),
                          [](void* p) noexcept { dlpack::Release()(static_cast<dlpack::ManagedTensor*>(p)); });
  static_cast<void>(managed.release());
  nb::dlpack::dtype element;
  element.code = narrow ? static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt) : tensor.dtype.code;
  element.bits = tensor.dtype.bits;
  element.lanes = 1;
  nb::ndarray<nb::numpy, nb::ro> view(tensor.data, shape.size(), shape.data(), owner, nullptr, element);
  nb::object result = nb::cast(view, nb::rv_policy::reference);
  return narrow ? nb::object(result.attr("view")(narrow_dtype)) : result;
}

Array array_of(nb::handle given, const DType* wanted) {
  if (nb::isinstance<Array>(given)) return nb::cast<Array>(given);
  const nb::module_ numpy = nb::module_::import_("numpy");
  const bool is_numpy = nb::isinstance(given, numpy.attr("ndarray"));
  if (!is_numpy && nb::hasattr(given, "__dlpack__")) return from_capsule(given.attr("__dlpack__")());
  if (is_numpy || nb::hasattr(given, "dtype") || wanted == nullptr) return from_numpy(numpy.attr("asarray")(given));
  const nb::object dtype = *wanted == DType::bfloat16 ? bfloat16_of_numpy() : nb::cast(std::string(name(*wanted)));
  return from_numpy(numpy.attr("asarray")(given, nb::arg("dtype") = dtype));
}

void bind_arrays(nb::module_& module) {
  nb::class_<ArrayType>(module, "ArrayType", "Dtype and shape of an array.")
      .def_prop_ro("dtype", [](const ArrayType& t) { return std::string(name(t.dtype)); })
      .def_prop_ro("shape", [](const ArrayType& t) { return extents(t.shape); })
      .def("__eq__", [](const ArrayType& a, const ArrayType& b) { return a == b; })
      .def("__repr__", [](const ArrayType& t) { return to_string(t); });
  nb::class_<Array>(module, "Array", "An array of Lockstep, which does not change.")
      .def_prop_ro("dtype", [](const Array& a) { return std::string(name(a.dtype())); })
      .def_prop_ro("shape", [](const Array& a) { return extents(a.shape()); })
      .def("numpy", &numpy_of, "As a NumPy array over the same memory, read-only.")
      .def(
          "__array__",
          [](const Array& a, const nb::object& dtype, const nb::object& copy) {
            nb::object array = numpy_of(a);
            if (!dtype.is_none()) array = array.attr("astype")(dtype);
            return !copy.is_none() && nb::cast<bool>(copy) ? nb::object(array.attr("copy")()) : array;
          },
          nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none())
      .def(
          "__dlpack__",
          [](const Array& a, const nb::object&, const nb::object& max_version, const nb::object&,
             const nb::object& copy) { return exported(a, max_version, copy); },
          nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
          nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none(),
          "The memory as DLPack: shared with consumers of DLPack 1.x, copied for older ones.")
      .def("__dlpack_device__", [](const Array&) { return nb::make_tuple(1, 0); })
      .def("__repr__", [](const Array& a) { return to_string(a.type()); });
  module.def(
      "array", [](nb::handle x) { return array_of(x); }, nb::arg("x"),
      "An Array of a NumPy array, of what speaks DLPack, or of numbers. Memory is shared where it is row-major and "
      "aligned "
      "to 64 bytes: it must not be written while the Array lives.");
}

}  // namespace lockstep::python
