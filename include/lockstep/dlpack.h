#pragma once

#include <cstdint>
#include <memory>

#include <lockstep/array.h>
#include <lockstep/export.h>

/// Arrays handed to and taken from other libraries without a copy, by the DLPack exchange format (its public C ABI,
/// versions 0.8 and 1.x, https://dmlc.github.io/dlpack). The structs have the layout of that ABI: pointers to them and
/// to the C header's may be cast into one another.
namespace lockstep::dlpack {

/// DLDevice.
struct Device {
  std::int32_t type = 1;  ///< 1: CPU, 2: CUDA, 3: CUDA's pinned memory.
  std::int32_t id = 0;
};

/// DLDataType.
struct DataType {
  std::uint8_t code = 0;  ///< 0: int, 1: uint, 2: float, 4: bfloat, 5: complex, 6: bool.
  std::uint8_t bits = 0;
  std::uint16_t lanes = 1;  ///< Elements of a vector; 1.
};
/// What DLPack calls the elements of an array. Throws DtypeError for keys, which it does not know.
LOCKSTEP_API DataType data_type(DType dtype);

/// DLTensor: a view of memory.
struct Tensor {
  void* data = nullptr;
  Device device;
  std::int32_t ndim = 0;
  DataType dtype;
  std::int64_t* shape = nullptr;
  std::int64_t* strides = nullptr;  ///< In elements; null: row-major.
  std::uint64_t byte_offset = 0;    ///< Of the first element, from `data` on.
};

/// A tensor and who frees it (DLManagedTensor).
struct ManagedTensor {
  Tensor tensor;
  void* context = nullptr;
  void (*deleter)(ManagedTensor*) = nullptr;
};

/// DLPackVersion: of the layout that follows it.
struct Version {
  std::uint32_t major = 1;
  std::uint32_t minor = 0;
};
inline constexpr std::uint64_t read_only = 1;  ///< A flag of VersionedTensor.

/// The same of DLPack 1.x (DLManagedTensorVersioned).
struct VersionedTensor {
  Version version;
  void* context = nullptr;
  void (*deleter)(VersionedTensor*) = nullptr;
  std::uint64_t flags = 0;
  Tensor tensor;
};

/// Calls the deleter of what it is given.
struct Release {
  template <class T>
  void operator()(T* managed) const {
    if (managed->deleter != nullptr) managed->deleter(managed);
  }
};
/// Calls the deleter when dropped; `release()` hands the pointer, and with it that duty, to a consumer.
using Managed = std::unique_ptr<ManagedTensor, Release>;
using Versioned = std::unique_ptr<VersionedTensor, Release>;

}  // namespace lockstep::dlpack

namespace lockstep {

/// The array's memory as a DLPack tensor, row-major; it lives until the deleter is called, whatever becomes of the
/// array. Arrays do not change: a consumer must not write (the versioned form says so by its flag). Throws TraceError
/// for a traced value, DtypeError for keys.
LOCKSTEP_API dlpack::Managed to_dlpack(const Array& array);
/// The same in the form of DLPack 1.x, with the flag read_only.
LOCKSTEP_API dlpack::Versioned to_dlpack_versioned(const Array& array);

/// An array over the tensor's memory, which must not be written any more; its deleter is called with the last array
/// over it. Memory that is not aligned to 64 bytes or not row-major is copied and given back at once. Such memory is
/// never donated. Throws DtypeError for an element type without a DType, BackendError for a device other than the CPU,
/// ShapeError for more dimensions than Shape::max_rank, ValueError for null and for another major version.
LOCKSTEP_API Array from_dlpack(dlpack::Managed tensor);
LOCKSTEP_API Array from_dlpack(dlpack::Versioned tensor);  ///< The same from the form of DLPack 1.x.

}  // namespace lockstep
