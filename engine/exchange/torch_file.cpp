#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/exchange/weight_files.h>

#include "engine/checkpoint/committed_folder.h"
#include "engine/checkpoint/restorable.h"
#include "engine/data/files/file_bytes.h"
#include "engine/data/files/mapped_file.h"
#include "engine/data/files/zip_archive.h"
#include "engine/exchange/torch_pickle.h"
#include "engine/exchange/zip_writer.h"
#include "engine/files/utf8.h"

// The form: torch/serialization.py. A zip of <any>/data.pkl, which names storages, <any>/data/<key>, their elements, and
// <any>/byteorder.

namespace lockstep::exchange {
namespace {

using Kind = PickleValue::Kind;

constexpr int deepest_dict = 32;
/// What tensors that share storages may take together, in sizes of the file.
constexpr std::uint64_t most_copies = 64;

struct StorageClass {
  std::string_view name;
  DType dtype;
};
constexpr std::array<StorageClass, 12> storage_classes = {{{"FloatStorage", DType::float32},
                                                           {"DoubleStorage", DType::float64},
                                                           {"HalfStorage", DType::float16},
                                                           {"BFloat16Storage", DType::bfloat16},
                                                           {"ByteStorage", DType::uint8},
                                                           {"CharStorage", DType::int8},
                                                           {"ShortStorage", DType::int16},
                                                           {"IntStorage", DType::int32},
                                                           {"LongStorage", DType::int64},
                                                           {"BoolStorage", DType::bool_},
                                                           {"ComplexFloatStorage", DType::complex64},
                                                           {"ComplexDoubleStorage", DType::complex128}}};

class TorchFile {
 public:
  explicit TorchFile(const std::filesystem::path& path)
      : file_(path, "load_torch"), bytes_(file_.bytes()), entries_(read_entries()) {}

  std::map<std::string, Array> tensors() {
    const data::ZipEntry& pickle = find_pickle();
    folder_ = pickle.name.substr(0, pickle.name.size() - pickle_name.size());
    if (const data::ZipEntry* order = find(folder_ + "byteorder"); order != nullptr && text_of(*order) != "little") {
      fail("its byte order is " + data::shown(text_of(*order)) + "; expected 'little'");
    }
    const std::vector<std::byte> program = unpacked(pickle);
    const TorchPickle read(program, file_.name() + ", " + pickle.name);
    if (read.root().kind == Kind::tensor) fail("it holds one tensor; save a dict of tensors, {'name': tensor}");
    if (read.root().kind != Kind::dict) fail("it holds no dict; save a dict of tensors, model.state_dict()");
    most_items_ = most_copies * program.size();
    add_dict(read.root(), "", 0);
    return std::move(tensors_);
  }

 private:
  static constexpr std::string_view pickle_name = "data.pkl";

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError("[load_torch] " + file_.name() + ": " + what);
  }
  std::vector<data::ZipEntry> read_entries() const {
    if (bytes_.size() >= 2 && bytes_[0] == std::byte{0x80}) {
      fail("a bare pickle, as PyTorch before 1.6 wrote it; load it there and save it again");
    }
    return data::zip_entries(bytes_, file_.name(), "load_torch");
  }
  const data::ZipEntry* find(const std::string& name) {
    for (; places_.size() < entries_.size();) places_.emplace(entries_[places_.size()].name, places_.size());
    const auto found = places_.find(name);
    return found == places_.end() ? nullptr : &entries_[found->second];
  }
  const data::ZipEntry& find_pickle() const {
    for (const data::ZipEntry& entry : entries_) {
      if (entry.name == pickle_name || entry.name.ends_with("/data.pkl")) return entry;
    }
    fail("no data.pkl in it; expected what torch.save writes");
  }
  std::string text_of(const data::ZipEntry& entry) const { return std::string(data::as_text(unpacked(entry))); }
  std::vector<std::byte> unpacked(const data::ZipEntry& entry) const {
    if (entry.size / most_copies > bytes_.size()) {
      fail(fmt::format("entry {} would take more than {} times the file's size", data::shown(entry.name), most_copies));
    }
    return data::unpack(bytes_, entry, file_.name(), "load_torch");
  }

  void add_dict(const PickleValue& dict, const std::string& prefix, int depth) {
    if (depth > deepest_dict) fail(fmt::format("dicts are nested more than {} deep", deepest_dict));
    for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const PickleValue &key = *dict.items[i], &value = *dict.items[i + 1];
      // Each item takes a byte of the pickle at least, but a dict may stand in many others.
      if (++items_ > most_items_) {
        fail(fmt::format("its dicts share dicts so often that they would hold more than {} times what the pickle does",
                         most_copies));
      }
      if (value.kind != Kind::tensor && value.kind != Kind::dict) continue;
      if (key.kind != Kind::text && key.kind != Kind::integer) fail("a key of a dict is no text");
      const std::string name = prefix + (key.kind == Kind::text ? key.text : std::to_string(key.integer));
      if (value.kind == Kind::dict) {
        add_dict(value, name + ".", depth + 1);
        continue;
      }
      if (tensors_.contains(name)) {
        fail(
            fmt::format("two tensors are called {}, as a key of one dict or through dicts in dicts; rename one of them "
                        "and save again",
                        data::shown(name)));
      }
      if (!files::is_name(name)) {
        fail(fmt::format("a tensor is called {}; expected a name of UTF-8 without NUL", data::shown(name)));
      }
      tensors_.emplace(name, tensor(name, value));
    }
  }

  const std::vector<std::byte>& storage(const std::string& tensor, const PickleValue& value) {
    const auto known = storages_.find(value.text);
    if (known != storages_.end()) return known->second;
    const data::ZipEntry* entry = find(folder_ + "data/" + value.text);
    if (entry == nullptr) fail("'" + tensor + "': its storage " + data::shown(value.text) + " is not in the file");
    return storages_.emplace(value.text, unpacked(*entry)).first->second;
  }

  Array tensor(const std::string& name, const PickleValue& value);

  data::MappedFile file_;
  std::span<const std::byte> bytes_;
  std::vector<data::ZipEntry> entries_;
  std::unordered_map<std::string, std::size_t> places_;  ///< Of entries, whose names are unique.
  std::string folder_;
  std::map<std::string, std::vector<std::byte>> storages_;
  std::map<std::string, Array> tensors_;
  std::uint64_t taken_ = 0;
  std::uint64_t items_ = 0, most_items_ = 0;
};

/// Elements of a strided view, and whether they lie in row-major order without a gap.
struct StridedView {
  std::vector<std::uint64_t> sizes, strides;
  std::uint64_t offset = 0;
  std::uint64_t count = 1;

  /// Nothing where the view leaves `elements`, or has more of them than there are.
  static std::optional<StridedView> of(const PickleValue& tensor, std::uint64_t elements) {
    StridedView view;
    if (tensor.items[1]->integer < 0) return std::nullopt;
    view.offset = static_cast<std::uint64_t>(tensor.items[1]->integer);
    std::uint64_t last = view.offset;
    if (last > elements) return std::nullopt;
    for (std::size_t d = 0; d < tensor.items[2]->items.size(); ++d) {
      const std::int64_t size = tensor.items[2]->items[d]->integer, stride = tensor.items[3]->items[d]->integer;
      if (size < 0 || stride < 0) return std::nullopt;
      view.sizes.push_back(static_cast<std::uint64_t>(size));
      view.strides.push_back(static_cast<std::uint64_t>(stride));
    }
    if (std::ranges::find(view.sizes, 0U) != view.sizes.end()) view.count = 0;
    if (view.count == 0) {
      Shape shape;
      for (const std::uint64_t size : view.sizes) shape.append(static_cast<std::int64_t>(size));
      return checkpoint::is_empty_shape_readable(shape) ? std::optional(view) : std::nullopt;
    }
    for (std::size_t d = 0; d < view.sizes.size(); ++d) {
      const std::uint64_t size = view.sizes[d], stride = view.strides[d];
      if (size > elements / view.count) return std::nullopt;
      view.count *= size;
      if (size > 1 && stride > (elements - last) / (size - 1)) return std::nullopt;
      last += (size - 1) * stride;
    }
    return last < elements ? std::optional(view) : std::nullopt;
  }

  std::vector<std::byte> gather(const std::vector<std::byte>& storage, std::size_t width) const {
    std::vector<std::byte> result(static_cast<std::size_t>(count) * width);
    std::vector<std::uint64_t> index(sizes.size(), 0);
    std::uint64_t from = offset;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::memcpy(result.data() + i * width, storage.data() + from * width, width);
      for (std::size_t d = sizes.size(); d-- > 0;) {
        from += strides[d];
        if (++index[d] < sizes[d]) break;
        from -= strides[d] * sizes[d];
        index[d] = 0;
      }
    }
    return result;
  }
};

/// Little-endian elements of `width` bytes, each negated: floats by their sign bit, whole numbers as two's complement.
void negate(std::vector<std::byte>& elements, std::size_t first, std::size_t width, std::size_t stride, bool by_sign) {
  for (std::size_t i = first; i + width <= elements.size(); i += stride) {
    if (by_sign) {
      elements[i + width - 1] ^= std::byte{0x80};
      continue;
    }
    unsigned carry = 1;
    for (std::size_t k = i; k < i + width; ++k) {
      carry += std::to_integer<unsigned>(~elements[k]);
      elements[k] = static_cast<std::byte>(carry & 0xffU);
      carry >>= 8;
    }
  }
}

/// Elements of a view whose conjugate or negative bit is set, as PyTorch computes them when they are read.
void resolve_bits(const PickleValue& tensor, DType dtype, std::vector<std::byte>& elements) {
  const std::size_t part = is_complex(dtype) ? size_of(dtype) / 2 : size_of(dtype);
  if (tensor.negated) negate(elements, 0, part, part, !is_integer(dtype));
  if (tensor.conjugated && is_complex(dtype)) negate(elements, part, part, 2 * part, true);
}

Array TorchFile::tensor(const std::string& name, const PickleValue& value) {
  const PickleValue& described = *value.items[0];
  const auto known = std::ranges::find(storage_classes, described.storage_class, &StorageClass::name);
  if (known == storage_classes.end()) {
    fail("'" + name + "' has a " + data::shown(described.storage_class) + ", for which there is no dtype; convert it");
  }
  const std::vector<std::byte>& stored = storage(name, described);
  const std::size_t width = size_of(known->dtype);
  const std::uint64_t elements = stored.size() / width;
  if (described.integer < 0 || static_cast<std::uint64_t>(described.integer) > elements) {
    fail(fmt::format("'{}': its storage has {} bytes, too few for {} elements of {}", name, stored.size(),
                     described.integer, lockstep::name(known->dtype)));
  }
  if (value.items[2]->items.size() > static_cast<std::size_t>(Shape::max_rank)) {
    fail(fmt::format("'{}' has rank {}; at most {}", name, value.items[2]->items.size(), Shape::max_rank));
  }
  const std::optional<StridedView> view = StridedView::of(value, elements);
  if (!view) {
    fail(
        fmt::format("'{}': its sizes and strides leave the {} elements of its storage, or repeat them; save "
                    "tensor.clone()",
                    name, elements));
  }
  taken_ += view->count * width;
  if (taken_ / most_copies > bytes_.size()) {
    fail(fmt::format("its tensors share storages so often that they would take more than {} times the file's size",
                     most_copies));
  }
  Shape shape;
  for (const std::uint64_t size : view->sizes) shape.append(static_cast<std::int64_t>(size));
  std::vector<std::byte> gathered = view->gather(stored, width);
  const auto is_truth = [](std::byte byte) { return byte <= std::byte{1}; };
  if (known->dtype == bool_ && !std::ranges::all_of(gathered, is_truth)) {
    fail("'" + name + "' is of bool and has a byte that is neither 0 nor 1; the file is damaged");
  }
  if (known->dtype == bool_ && value.negated)
    fail("'" + name + "' is of bool with the negative bit; save tensor.clone()");
  resolve_bits(value, known->dtype, gathered);
  return from_bytes({known->dtype, shape, {}}, gathered);
}

}  // namespace

std::map<std::string, Array> load_torch(const std::filesystem::path& file) { return TorchFile(file).tensors(); }

void save_torch(const std::filesystem::path& file, const Named<Array>& tensors) {
  std::vector<PickledTensor> described;
  for (const auto& [name, tensor] : tensors) {
    const auto known = std::ranges::find(storage_classes, tensor.dtype(), &StorageClass::dtype);
    if (known == storage_classes.end()) {
      throw DataError("[save_torch] " + file.string() + ": '" + name + "' has dtype " +
                      std::string(lockstep::name(tensor.dtype())) +
                      ", for which torch has no storage class; convert it, or save to a .safetensors file");
    }
    check_name("save_torch", file.string(), name);
    if (tensor.shape().size() == 0 && !checkpoint::is_empty_shape_readable(tensor.shape())) {
      throw DataError(
          "[save_torch] " + file.string() + ": '" + name + "' is " + to_string(tensor.type()) +
          ", which has no elements and extents whose product is above 2^48; no reader takes it: reshape it");
    }
    described.push_back({name, known->name, tensor.shape().to_vector()});
  }
  ZipWriter zip("save_torch", file.string());
  zip.add("archive/data.pkl", write_torch_pickle(described));
  zip.add("archive/byteorder", "little");
  std::size_t i = 0;
  for (const auto& [name, tensor] : tensors) zip.add("archive/data/" + std::to_string(i++), tensor.to_bytes());
  zip.add("archive/version", "3\n");
  checkpoint::replace_file(file, std::move(zip).finish());
}

}  // namespace lockstep::exchange
