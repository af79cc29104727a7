#include <algorithm>
#include <string>
#include <utility>

#include <lockstep/error.h>
#include <lockstep/sources.h>

#include "engine/data/gathered_rows.h"

namespace lockstep::data {
namespace {

/// A part of a document that stands in one packed row.
struct Piece {
  std::int64_t document = 0;
  std::int64_t begin = 0;
  std::int64_t size = 0;
};

std::span<const std::int32_t> tokens_of(const Row& row, const std::string& field, std::int64_t document) {
  const auto found = row.find(field);
  if (found == row.end() || found->second.type.dtype != DType::int32 || found->second.type.shape.rank() != 1) {
    throw DataError(
        "[pack] document " + std::to_string(document) + " has " +
        (found == row.end() ? "no field '" + field + "'" : "'" + field + "' of " + to_string(found->second.type)) +
        "; expected '" + field + "' of i32[any length]");
  }
  return elements<std::int32_t>(found->second);
}

class Packed final : public Source {
 public:
  Packed(SourcePtr documents, PackOptions options) : documents_(std::move(documents)), options_(std::move(options)) {
    std::vector<std::size_t> open;
    std::vector<std::int64_t> used;
    for (std::int64_t d = 0; d < documents_->rows(); ++d) {
      const Row row = documents_->row(d, RowKey(0, 0, d));
      const std::int64_t length = std::ssize(tokens_of(row, options_.field, d));
      for (std::int64_t begin = 0; begin < length; begin += options_.length) {
        place({d, begin, std::min(options_.length, length - begin)}, open, used);
      }
    }
    if (rows_.empty()) throw DataError("[pack] no document has a token; give at least one");
  }
  std::int64_t rows() const override { return std::ssize(rows_); }
  Row row(std::int64_t i, const RowKey& key) const override {
    if (i < 0 || i >= rows()) {
      throw DataError("[pack] row " + std::to_string(i) + " of a source of " + std::to_string(rows()) + " rows");
    }
    const auto length = static_cast<std::size_t>(options_.length);
    std::vector<std::int32_t> tokens(length), segments(length), positions(length);
    std::size_t at = 0;
    std::int32_t segment = 0;
    for (const Piece& piece : rows_[static_cast<std::size_t>(i)]) {
      const Row document = documents_->row(piece.document, key);
      const auto words = tokens_of(document, options_.field, piece.document);
      if (std::ssize(words) < piece.begin + piece.size) {
        throw DataError("[pack] document " + std::to_string(piece.document) + " has " + std::to_string(words.size()) +
                        " tokens, and had more when it was packed; a document must not depend on the key");
      }
      ++segment;
      for (std::int64_t t = 0; t < piece.size; ++t, ++at) {
        tokens[at] = words[static_cast<std::size_t>(piece.begin + t)];
        segments[at] = segment;
        positions[at] = static_cast<std::int32_t>(t);
      }
    }
    const Shape shape{options_.length};
    return {{"tokens", host_table(tokens, shape)},
            {"segments", host_table(segments, shape)},
            {"positions", host_table(positions, shape)}};
  }

 private:
  /// Into the first open row with room for it; a new row closes the oldest.
  void place(const Piece& piece, std::vector<std::size_t>& open, std::vector<std::int64_t>& used) {
    for (auto row = open.begin(); row != open.end(); ++row) {
      if (used[*row] + piece.size > options_.length) continue;
      rows_[*row].push_back(piece);
      used[*row] += piece.size;
      if (used[*row] == options_.length) open.erase(row);
      return;
    }
    rows_.push_back({piece});
    used.push_back(piece.size);
    if (piece.size == options_.length) return;
    if (std::ssize(open) == options_.open_rows) open.erase(open.begin());
    open.push_back(rows_.size() - 1);
  }

  SourcePtr documents_;
  PackOptions options_;
  std::vector<std::vector<Piece>> rows_;
};

}  // namespace

SourcePtr pack(SourcePtr documents, PackOptions options) {
  check_source(documents, "pack");
  if (options.length < 1 || options.length > INT32_MAX || options.open_rows < 1) {
    throw ValueError("[pack] length is " + std::to_string(options.length) + ", open_rows " +
                     std::to_string(options.open_rows) + "; both must be at least 1, and a length one of 32 bits");
  }
  return std::make_shared<Packed>(std::move(documents), std::move(options));
}

}  // namespace lockstep::data
