#include "engine/data/gathered_rows.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

#include <lockstep/error.h>

namespace lockstep::data {
namespace {

// Padding a batch takes memory for all its rows.
constexpr std::int64_t most_rows = std::int64_t{1} << 40;

[[noreturn]] void refuse(std::size_t row_bytes, std::int64_t size) {
  throw DataError("[loader] a batch of " + std::to_string(size) + " rows of " + std::to_string(row_bytes) +
                  " bytes does not fit the memory; take a smaller batch");
}

template <class T>
std::vector<T> memory_of(std::size_t row_elements, std::int64_t size) {
  std::size_t count = 0;
  if (__builtin_mul_overflow(row_elements, static_cast<std::size_t>(size), &count)) refuse(row_elements, size);
  try {
    return std::vector<T>(count);
  } catch (const std::bad_alloc&) {
    refuse(row_elements * sizeof(T), size);
  } catch (const std::length_error&) {
    refuse(row_elements * sizeof(T), size);
  }
}

}  // namespace

void check_batch(std::int64_t batch) {
  if (batch > 0 && batch <= most_rows) return;
  throw ValueError("[loader] the batch is " + std::to_string(batch) + "; it must be at least 1" +
                   (batch > 0 ? ", and no more than 2^40" : ""));
}

Array gathered(const HostTable& table, const std::vector<std::int64_t>& rows, std::int64_t size) {
  const std::size_t row_bytes = table.bytes.size() / static_cast<std::size_t>(table.rows());
  std::vector<std::byte> bytes = memory_of<std::byte>(row_bytes, size);
  for (std::size_t i = 0; row_bytes > 0 && i < static_cast<std::size_t>(size); ++i) {
    const auto row = static_cast<std::size_t>(rows[std::min(i, rows.size() - 1)]);
    std::memcpy(bytes.data() + i * row_bytes, table.bytes.data() + row * row_bytes, row_bytes);
  }
  return from_bytes({table.type.dtype, table.type.shape.with(0, size), {}}, bytes);
}

Array real_rows(std::size_t real, std::int64_t size) {
  std::vector<float> flags = memory_of<float>(1, size);
  std::fill_n(flags.begin(), real, 1.0F);
  return array(flags);
}

}  // namespace lockstep::data
