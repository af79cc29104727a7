#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/backend/aligned_memory.h>
#include <lockstep/backend/backend.h>
#include <lockstep/dlpack.h>
#include <lockstep/error.h>

#include "engine/api/transforms/runtime.h"
#include "engine/core/checked_sizes.h"
#include "engine/core/lists.h"
#include "engine/trace/array_state.h"

namespace lockstep {

dlpack::DataType dlpack::data_type(DType dtype) {
  enum Code : std::uint8_t { integer = 0, unsigned_integer = 1, real = 2, bfloat = 4, complex = 5, boolean = 6 };
  const auto bits = static_cast<std::uint8_t>(8 * size_of(dtype));
  if (dtype == DType::bool_) return {boolean, bits, 1};
  if (dtype == DType::bfloat16) return {bfloat, bits, 1};
  if (is_float(dtype)) return {real, bits, 1};
  if (is_complex(dtype)) return {complex, bits, 1};
  if (is_integer(dtype)) return {is_signed_integer(dtype) ? integer : unsigned_integer, bits, 1};
  throw DtypeError(
      fmt::format("to_dlpack: DLPack has no element type for {}; export random::key_data(key)", name(dtype)));
}

namespace {

constexpr std::int32_t cpu = 1;
constexpr std::int32_t pinned = 3;

DType dtype_of_element(const dlpack::DataType& type) {
  for (int i = 0; i < static_cast<int>(DType::key); ++i) {
    const auto dtype = static_cast<DType>(i);
    const dlpack::DataType own = dlpack::data_type(dtype);
    if (own.code == type.code && own.bits == type.bits && type.lanes == 1) return dtype;
  }
  throw DtypeError(fmt::format(
      "from_dlpack: no DType for element type code {}, {} bits, {} lanes; export one of Lockstep's dtypes, lanes 1",
      type.code, type.bits, type.lanes));
}

// ---- export

/// What an exported tensor keeps alive and points into.
template <class T>
struct Export {
  T managed;
  std::shared_ptr<backend::Buffer> buffer;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
};

template <class T>
std::unique_ptr<T, dlpack::Release> exported(const Array& array) {
  const eval::HostArray host = api::host_array(array);
  const dlpack::DataType type = dlpack::data_type(array.dtype());
  auto owner = std::make_unique<Export<T>>();
  owner->buffer = host.buffer;
  owner->shape = array.shape().to_vector();
  owner->strides = row_major_strides(array.shape());
  dlpack::Tensor& tensor = owner->managed.tensor;
  tensor.data = host.buffer->data();
  tensor.device = {cpu, 0};
  tensor.ndim = array.ndim();
  tensor.dtype = type;
  tensor.shape = owner->shape.data();
  tensor.strides = owner->strides.data();
  owner->managed.deleter = [](T* managed) {
    const std::unique_ptr<Export<T>> last(static_cast<Export<T>*>(managed->context));
  };
  owner->managed.context = owner.get();
  return std::unique_ptr<T, dlpack::Release>(&owner.release()->managed);
}

// ---- import

/// Memory of another library.
template <class T>
class ForeignBuffer final : public backend::Buffer {
 public:
  ForeignBuffer(std::unique_ptr<T, dlpack::Release> owner, void* data, std::size_t nbytes)
      : owner_(std::move(owner)), data_(data), nbytes_(nbytes) {}
  void* data() const override { return data_; }
  std::size_t nbytes() const override { return nbytes_; }
  lockstep::Device device() const override { return {}; }
  bool writable() const override { return false; }

 private:
  std::unique_ptr<T, dlpack::Release> owner_;
  void* data_;
  std::size_t nbytes_;
};

Shape shape_of(const dlpack::Tensor& tensor) {
  if (tensor.ndim < 0 || tensor.ndim > Shape::max_rank || (tensor.ndim > 0 && tensor.shape == nullptr)) {
    throw ShapeError(fmt::format("from_dlpack: the tensor has {} dimensions, at most {} are possible; reshape it",
                                 tensor.ndim, Shape::max_rank));
  }
  return Shape(std::span<const std::int64_t>(tensor.shape, static_cast<std::size_t>(tensor.ndim)));
}

bool is_row_major(const dlpack::Tensor& tensor, const Shape& shape) {
  if (tensor.strides == nullptr || shape.size() == 0) return true;
  const std::vector<std::int64_t> strides = row_major_strides(shape);
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] != 1 && tensor.strides[d] != nth(strides, d)) return false;
  }
  return true;
}

void copy_strided(const dlpack::Tensor& tensor, const Shape& shape, std::size_t width, int dim, const std::byte* from,
                  std::byte*& to) {
  if (dim == shape.rank()) {
    std::memcpy(to, from, width);
    to += width;
    return;
  }
  const std::int64_t step = tensor.strides[dim] * static_cast<std::int64_t>(width);
  for (std::int64_t i = 0; i < shape[dim]; ++i) copy_strided(tensor, shape, width, dim + 1, from + i * step, to);
}

template <class T>
Array imported(std::unique_ptr<T, dlpack::Release> owner) {
  if (owner == nullptr) throw ValueError("from_dlpack: got null; give the tensor that another library exported");
  const dlpack::Tensor& tensor = owner->tensor;
  if (tensor.device.type != cpu && tensor.device.type != pinned) {
    throw BackendError(fmt::format("from_dlpack: the tensor lies on a device of DLPack's type {}; move it to the CPU",
                                   tensor.device.type));
  }
  const ArrayType type{dtype_of_element(tensor.dtype), shape_of(tensor), {}};
  check_size("from_dlpack", type);
  if (tensor.data == nullptr && type.size() > 0) {
    throw ValueError(
        fmt::format("from_dlpack: the tensor is {} and has no memory; give one that has", to_string(type)));
  }
  const auto nbytes = static_cast<std::size_t>(type.nbytes());
  std::byte* data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  if (!is_row_major(tensor, type.shape)) {
    auto copy = api::allocate(nbytes);
    auto* to = static_cast<std::byte*>(copy->data());
    copy_strided(tensor, type.shape, size_of(type.dtype), 0, data, to);
    api::expect_bools("from_dlpack", type, {to, nbytes});
    return make_array(type, std::move(copy));
  }
  if (nbytes == 0 || reinterpret_cast<std::uintptr_t>(data) % backend::buffer_alignment != 0)
    return from_bytes(type, {data, nbytes});
  api::expect_bools("from_dlpack", type, {data, nbytes});
  return make_array(type, std::make_shared<ForeignBuffer<T>>(std::move(owner), data, nbytes));
}

}  // namespace

dlpack::Managed to_dlpack(const Array& array) { return exported<dlpack::ManagedTensor>(array); }

dlpack::Versioned to_dlpack_versioned(const Array& array) {
  dlpack::Versioned tensor = exported<dlpack::VersionedTensor>(array);
  tensor->flags = dlpack::read_only;
  return tensor;
}

Array from_dlpack(dlpack::Managed tensor) { return imported(std::move(tensor)); }

Array from_dlpack(dlpack::Versioned tensor) {
  if (tensor != nullptr && tensor->version.major != dlpack::Version{}.major) {
    throw ValueError(fmt::format("from_dlpack: the tensor is of DLPack {}.{}; 1.x can be read", tensor->version.major,
                                 tensor->version.minor));
  }
  return imported(std::move(tensor));
}

}  // namespace lockstep
