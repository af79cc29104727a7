#include "engine/checkpoint/block_files.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>

#include "engine/checkpoint/committed_folder.h"
#include "engine/checkpoint/manifest.h"
#include "engine/files/folder_entries.h"
#include "engine/files/json_reader.h"

namespace lockstep::checkpoint {
namespace {

using json::Value;

[[noreturn]] void fail_in_blocks(const std::filesystem::path& folder, const std::string& what) {
  throw CheckpointError("[restore] " + (folder / manifest_file).string() + ": " + what);
}

/// Of the entry of that name.
std::optional<Shape> shape_in(const Value& entry, std::string_view field) {
  constexpr std::uint64_t longest = std::uint64_t{1} << 48;
  const Value* found = entry.find(field);
  const Value::List* list = found == nullptr ? nullptr : found->items();
  if (list == nullptr || list->size() > static_cast<std::size_t>(Shape::max_rank)) return std::nullopt;
  std::vector<std::int64_t> extents;
  std::uint64_t size = 1;
  for (const Value& item : *list) {
    const std::optional<std::uint64_t> extent = item.whole();
    if (!extent || *extent > longest || (*extent != 0 && size > longest / *extent)) return std::nullopt;
    extents.push_back(static_cast<std::int64_t>(*extent));
    size *= std::max<std::uint64_t>(*extent, 1);
  }
  return Shape(extents);
}

std::string text_in_entry(const Value& entry, std::string_view field) {
  const Value* found = entry.find(field);
  return found == nullptr || found->text() == nullptr ? std::string() : *found->text();
}

std::optional<std::uint64_t> whole_in(const Value& entry, std::string_view field) {
  const Value* found = entry.find(field);
  return found == nullptr ? std::nullopt : found->whole();
}

std::optional<DType> dtype_in(const Value& entry) {
  try {
    return parse_dtype(text_in_entry(entry, "dtype"));
  } catch (const DtypeError&) {
    return std::nullopt;
  }
}

/// A part of an array.
struct Box {
  Shape start;
  Shape shape;
};

/// That of a block, where it lies in an array of that shape.
std::optional<Box> box_of(const Value& entry, const Shape& whole) {
  const std::optional<Shape> start = shape_in(entry, "start"), shape = shape_in(entry, "shape");
  if (!start || !shape || start->rank() != whole.rank() || shape->rank() != whole.rank()) return std::nullopt;
  for (int d = 0; d < whole.rank(); ++d) {
    if ((*shape)[d] > whole[d] || (*start)[d] > whole[d] - (*shape)[d]) return std::nullopt;
  }
  return Box{*start, *shape};
}

/// Copies what two boxes of one array share, of row-major bytes.
void copy_shared(const Box& from, const std::byte* source, const Box& to, std::byte* target, std::size_t size) {
  const int rank = from.shape.rank();
  std::vector<std::int64_t> first, last;
  for (int d = 0; d < rank; ++d) {
    first.push_back(std::max(from.start[d], to.start[d]));
    last.push_back(std::min(from.start[d] + from.shape[d], to.start[d] + to.shape[d]));
    if (first.back() >= last.back()) return;
  }
  const auto element = [&](const Box& box, const std::vector<std::int64_t>& at) {
    std::int64_t index = 0;
    for (int d = 0; d < rank; ++d) index = index * box.shape[d] + at[static_cast<std::size_t>(d)] - box.start[d];
    return static_cast<std::size_t>(index) * size;
  };
  const std::int64_t row = rank == 0 ? 1 : last.back() - first.back();
  std::vector<std::int64_t> at = first;
  for (;;) {
    std::memcpy(target + element(to, at), source + element(from, at), static_cast<std::size_t>(row) * size);
    int d = rank - 2;
    while (d >= 0 && ++at[static_cast<std::size_t>(d)] == last[static_cast<std::size_t>(d)]) {
      at[static_cast<std::size_t>(d)] = first[static_cast<std::size_t>(d)];
      --d;
    }
    if (d < 0) return;
  }
}

bool overlap(const Box& a, const Box& b) {
  for (int d = 0; d < a.shape.rank(); ++d) {
    if (a.start[d] >= b.start[d] + b.shape[d] || b.start[d] >= a.start[d] + a.shape[d]) return false;
  }
  return true;
}

}  // namespace

std::string index_digest(const std::string& arrays, const std::string& blocks) { return sha256(arrays + blocks); }

BlockFiles::BlockFiles(std::filesystem::path folder, const std::string& text) : folder_(std::move(folder)) {
  const std::optional<Value> manifest = json::parse(text).value;
  const auto field = [&](std::string_view name) { return manifest ? manifest->find(name) : nullptr; };
  const Value *arrays = field("arrays"), *blocks = field("blocks"), *written = field("sha256");
  if (arrays == nullptr || arrays->entries() == nullptr || blocks == nullptr || blocks->items() == nullptr ||
      written == nullptr) {
    fail_in_blocks(folder_, "expected the lists arrays and blocks; the file was changed or damaged");
  }
  const std::string digest = index_digest(arrays->to_string(), blocks->to_string());
  if (written->text() == nullptr || *written->text() != digest) {
    fail_in_blocks(folder_, "its index has SHA-256 " + digest + ", it says " + written->to_string() +
                                "; the file was changed or damaged");
  }
  for (const auto& [path, info] : *arrays->entries()) {
    const std::optional<Shape> shape = shape_in(info, "shape");
    const std::optional<DType> dtype = dtype_in(info);
    if (!shape || !dtype) fail_in_blocks(folder_, "array '" + path + "' must have a dtype and a shape");
    types_.emplace(path, ArrayType{*dtype, *shape, {}});
  }
  for (const Value& entry : *blocks->items()) {
    const std::string path = text_in_entry(entry, "path");
    if (!types_.contains(path))
      fail_in_blocks(folder_, "a block belongs to '" + path + "', which is none of its arrays");
    const auto box = box_of(entry, types_.at(path).shape);
    const std::string file = text_in_entry(entry, "file");
    const std::optional<std::uint64_t> offset = whole_in(entry, "offset");
    if (!box || !offset || file.empty() || std::filesystem::path(file).filename() != file) {
      fail_in_blocks(folder_, "a block of '" + path + "' must have start and shape within " +
                                  to_string(types_.at(path)) + ", file, offset and sha256");
    }
    blocks_[path].push_back({box->start, box->shape, file, *offset, text_in_entry(entry, "sha256")});
  }
  for (const auto& [path, type] : types_) check_cover(path);
  if (field("files") != nullptr) check_files(*field("files"));  // older ones have no such list
  check_no_more_files();
}

void BlockFiles::check_files(const json::Value& files) const {
  const Value::List none(1);
  for (const Value& entry : files.items() == nullptr ? none : *files.items()) {
    const std::string file = text_in_entry(entry, "file");
    const std::optional<std::uint64_t> size = whole_in(entry, "size"), header = whole_in(entry, "header");
    if (file.empty() || std::filesystem::path(file).filename() != file || !size || !header) {
      fail_in_blocks(folder_, "one of its files must have a name, size, header and sha256");
    }
    check_file(file, *size, *header, text_in_entry(entry, "sha256"));
  }
}

void BlockFiles::check_no_more_files() const {
  std::set<std::string> known;
  for (const auto& [path, blocks] : blocks_) {
    for (const Block& block : blocks) known.insert(block.file);
  }
  for (const std::string& file : names_in(folder_)) {
    if (!file.starts_with("blocks-") || known.contains(file)) continue;
    fail_in_blocks(folder_, "its index has no block of " + file +
                                ", which lies beside it; take away what is of another checkpoint");
  }
}

void BlockFiles::check_file(const std::string& file, std::uint64_t size, std::uint64_t header,
                            const std::string& sha256) const {
  const std::filesystem::path path = folder_ / file;
  std::error_code error;
  const std::uintmax_t found = std::filesystem::file_size(path, error);
  if (error) throw CheckpointError("[restore] " + path.string() + " cannot be read: " + error.message());
  if (found != size) {
    throw CheckpointError("[restore] " + path.string() + " has " + std::to_string(found) + " bytes, the index says " +
                          std::to_string(size) + "; the file was changed or damaged");
  }
  if (digest_of(read_file(path, 0, header)) == sha256) return;
  throw CheckpointError("[restore] " + path.string() +
                        ": its header is not what was written; the file was changed or damaged");
}

/// Blocks of one shape at multiples of it, each once and as many as there is room for, cover their array.
void BlockFiles::check_cover(const std::string& path) const {
  const Shape& whole = types_.at(path).shape;
  const auto found = blocks_.find(path);
  std::set<std::vector<std::int64_t>> starts;
  std::int64_t covered = 0;
  bool fits = found != blocks_.end();
  if (fits && whole.size() == 0) return;  // blocks of nothing may all begin at one place
  for (std::size_t i = 0; fits && i < found->second.size(); ++i) {
    const Block& block = found->second[i];
    fits = block.shape == found->second[0].shape && starts.insert(block.start.to_vector()).second;
    for (int d = 0; fits && d < whole.rank(); ++d)
      fits = block.start[d] % std::max<std::int64_t>(block.shape[d], 1) == 0;
    covered += block.shape.size();
  }
  if (fits && covered == whole.size()) return;
  fail_in_blocks(folder_, "the blocks of '" + path + "' do not cover " + to_string(types_.at(path)) +
                              "; expected blocks of one shape, each once");
}

std::vector<std::byte> BlockFiles::bytes_of(const std::string& path, const Block& block) const {
  const ArrayType type{types_.at(path).dtype, block.shape, {}};
  std::vector<std::byte> bytes =
      read_file(folder_ / block.file, block.offset, static_cast<std::uint64_t>(type.nbytes()));
  if (const std::string digest = digest_of(bytes); digest != block.sha256) {
    throw CheckpointError("[restore] " + (folder_ / block.file).string() + ": the block of '" + path + "' at " +
                          to_string(block.start) + " has SHA-256 " + digest + ", the index says " + block.sha256 +
                          "; the file was changed or damaged");
  }
  return bytes;
}

Array BlockFiles::read(const std::string& path, const Shape& start, const Shape& shape) const {
  const DType dtype = types_.at(path).dtype;
  const Box wanted{start, shape};
  std::vector<std::byte> values(static_cast<std::size_t>(ArrayType{dtype, shape, {}}.nbytes()));
  for (const Block& block : blocks_.at(path)) {
    const Box box{block.start, block.shape};
    if (overlap(box, wanted)) copy_shared(box, bytes_of(path, block).data(), wanted, values.data(), size_of(dtype));
  }
  return from_bytes({dtype, shape, {}}, values);
}

Array BlockFiles::read(const std::string& path) const {
  const Shape& whole = types_.at(path).shape;
  return read(path, Shape(std::vector<std::int64_t>(static_cast<std::size_t>(whole.rank()))), whole);
}

}  // namespace lockstep::checkpoint
