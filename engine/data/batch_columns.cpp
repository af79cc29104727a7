#include "engine/data/batch_columns.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include <lockstep/backend/aligned_memory.h>
#include <lockstep/dlpack.h>
#include <lockstep/error.h>

#include "engine/data/gathered_rows.h"

namespace lockstep::data {

// ---- memory

void BatchMemory::Block::swap(Block& other) noexcept {
  memory_.swap(other.memory_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
}

BatchMemory::Block::~Block() {
  if (memory_ != nullptr) memory_->give(data_, bytes_);
}

BatchMemory::~BatchMemory() {
  for (const Kept& block : kept_) backend::free_aligned(block.data);
}

BatchMemory::Block BatchMemory::take(std::size_t bytes) {
  // Whoever holds it, perhaps a thread that fork left behind: nobody waits for it.
  if (const std::unique_lock lock(mutex_, std::try_to_lock); lock.owns_lock()) {
    const auto fits = std::ranges::find(kept_, bytes, &Kept::bytes);
    if (fits != kept_.end()) {
      std::byte* const data = fits->data;
      kept_.erase(fits);
      return {shared_from_this(), data, bytes};
    }
  }
  return {shared_from_this(), static_cast<std::byte*>(backend::allocate_aligned(bytes)), bytes};
}

void BatchMemory::give(std::byte* data, std::size_t bytes) noexcept {
  constexpr int most_of_a_size =
      2;  // of the batch that was used, and of one that is used up before the next is asked for
  try {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock() && std::ranges::count(kept_, bytes, &Kept::bytes) < most_of_a_size) {
      kept_.push_back({data, bytes});
      return;
    }
  } catch (const std::exception&) {  // without memory for the list, it goes back to the system
  }
  backend::free_aligned(data);
}

namespace {

/// A block, given to an array.
struct Lent {
  dlpack::ManagedTensor managed;
  std::vector<std::int64_t> shape;
  BatchMemory::Block block;
};

}  // namespace

Array BatchMemory::array_over(const ArrayType& type, Block block) {
  if (type.dtype == DType::key || block.bytes() == 0) return from_bytes(type, {block.data(), block.bytes()});
  auto lent = std::make_unique<Lent>();
  lent->shape = type.shape.to_vector();
  lent->block = std::move(block);
  dlpack::Tensor& tensor = lent->managed.tensor;
  tensor.data = lent->block.data();
  tensor.ndim = type.shape.rank();
  tensor.dtype = dlpack::data_type(type.dtype);
  tensor.shape = lent->shape.data();
  lent->managed.context = lent.get();
  lent->managed.deleter = [](dlpack::ManagedTensor* managed) {
    const std::unique_ptr<Lent> last(static_cast<Lent*>(managed->context));
  };
  return from_dlpack(dlpack::Managed(&lent.release()->managed));
}

// ---- rows

namespace {

void check_bytes(const std::string& name, const HostTable& table, std::int64_t row) {
  if (std::ssize(table.bytes) == table.type.nbytes()) return;
  throw DataError("[loader] row " + std::to_string(row) + ": '" + name + "' is " + to_string(table.type) + " with " +
                  std::to_string(table.bytes.size()) + " bytes; give it the bytes of all its elements");
}

std::string said(const Row& row) {
  std::string text;
  for (const auto& [name, table] : row) text += (text.empty() ? "'" : ", '") + name + "' " + to_string(table.type);
  return "{" + text + "}";
}

}  // namespace

BatchColumns::BatchColumns(std::shared_ptr<const Row> like, std::int64_t row, std::int64_t size,
                           const std::shared_ptr<BatchMemory>& memory)
    : like_(std::move(like)), like_row_(row), size_(size) {
  if (like_->empty()) {
    throw DataError("[loader] row " + std::to_string(row) + " has no field; give each row one at least");
  }
  for (const auto& [name, table] : *like_) {
    check_bytes(name, table, row);
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(table.bytes.size(), static_cast<std::size_t>(size), &bytes) || bytes > PTRDIFF_MAX) {
      refuse_rows(table.bytes.size(), size);
    }
    try {
      blocks_.push_back(memory->take(bytes));
    } catch (const std::bad_alloc&) {
      refuse_rows(table.bytes.size(), size);
    }
  }
}

bool BatchColumns::takes(const Row& row) const {
  return std::ranges::equal(row, *like_, [](const auto& field, const auto& expected) {
    return field.first == expected.first && field.second.type == expected.second.type &&
           field.second.bytes.size() == expected.second.bytes.size();
  });
}

void BatchColumns::add(const Row& row, std::int64_t number, std::size_t place) {
  if (!takes(row)) refuse(row, number);
  auto block = blocks_.begin();
  for (const auto& [name, table] : row) {
    if (!table.bytes.empty()) {
      std::memcpy(block->data() + place * table.bytes.size(), table.bytes.data(), table.bytes.size());
    }
    ++block;
  }
}

void BatchColumns::refuse(const Row& row, std::int64_t number) const {
  auto expected = like_->begin();
  for (const auto& [name, table] : row) {
    if (expected == like_->end() || expected->first != name || !(expected->second.type == table.type)) break;
    check_bytes(name, table, number);
    ++expected;
  }
  throw DataError("[loader] row " + std::to_string(number) + " is " + said(row) + ", row " + std::to_string(like_row_) +
                  " is " + said(*like_) +
                  "; give all rows the same fields, dtypes and shapes: map_rows can crop, resize or pad them");
}

void BatchColumns::repeat(std::size_t real) {
  auto block = blocks_.begin();
  for (const auto& [name, table] : *like_) {
    const std::size_t bytes = table.bytes.size();
    for (std::size_t at = real * bytes; bytes > 0 && at < block->bytes(); at += bytes) {
      std::memcpy(block->data() + at, block->data() + (real - 1) * bytes, bytes);
    }
    ++block;
  }
}

Tree BatchColumns::take() {
  auto block = blocks_.begin();
  Tree batch = Tree::dict({});
  for (const auto& [name, table] : *like_) {
    batch = batch.with(name, Tree(BatchMemory::array_over({table.type.dtype, table.type.shape.insert(0, size_), {}},
                                                          std::move(*block++))));
  }
  blocks_.clear();
  return batch;
}

}  // namespace lockstep::data
