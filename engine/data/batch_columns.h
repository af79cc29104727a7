#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/sources.h>
#include <lockstep/tree.h>

namespace lockstep::data {

/// Memory of batches. What the last array over a block gives back serves a later batch: memory that the system has just
/// given costs more than what is written to it. Blocks may outlive the loader, and end on any thread.
class BatchMemory : public std::enable_shared_from_this<BatchMemory> {
 public:
  /// A block that comes back unless an array has taken it.
  class Block {
   public:
    Block() = default;
    Block(std::shared_ptr<BatchMemory> memory, std::byte* data, std::size_t bytes)
        : memory_(std::move(memory)), data_(data), bytes_(bytes) {}
    Block(Block&& other) noexcept { swap(other); }
    Block& operator=(Block&& other) noexcept {
      Block taken(std::move(other));
      swap(taken);
      return *this;
    }
    ~Block();

    std::byte* data() const { return data_; }
    std::size_t bytes() const { return bytes_; }

   private:
    void swap(Block& other) noexcept;

    std::shared_ptr<BatchMemory> memory_;
    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
  };

  BatchMemory() = default;
  BatchMemory(const BatchMemory&) = delete;
  BatchMemory& operator=(const BatchMemory&) = delete;
  ~BatchMemory();

  /// Throws std::bad_alloc.
  Block take(std::size_t bytes);
  /// An array over a block of just the type's bytes.
  static Array array_over(const ArrayType& type, Block block);

 private:
  struct Kept {
    std::byte* data;
    std::size_t bytes;
  };
  void give(std::byte* data, std::size_t bytes) noexcept;

  std::mutex mutex_;
  std::vector<Kept> kept_;
};

/// Rows of one form, each field's one behind the other where the batch will read them.
class BatchColumns {
 public:
  /// For `size` rows like this one, which is given with its number. Throws DataError for one without fields, without the
  /// bytes that its types need, and where there is no memory.
  BatchColumns(std::shared_ptr<const Row> like, std::int64_t row, std::int64_t size,
               const std::shared_ptr<BatchMemory>& memory);

  /// Whether it has the fields, dtypes, shapes and bytes of the first.
  bool takes(const Row& row) const;
  /// Writes a row at a place below `size`. Throws DataError naming both rows where it has another form than the first.
  void add(const Row& row, std::int64_t number, std::size_t place);
  /// The last of `real` rows once more, up to the end.
  void repeat(std::size_t real);
  /// The batch; the columns are empty afterwards.
  Tree take();

 private:
  void refuse(const Row& row, std::int64_t number) const;

  std::shared_ptr<const Row> like_;
  std::int64_t like_row_;
  std::int64_t size_;
  std::vector<BatchMemory::Block> blocks_;  ///< In the order of the fields' names.
};

}  // namespace lockstep::data
