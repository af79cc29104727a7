#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/moved_from.h>
#include <lockstep/sources.h>

#include "engine/data/gathered_rows.h"

// Sources that have the rows of others: fewer, more, or in another order.
namespace lockstep::data {
namespace {

/// Other rows of one source: as many as it is told, row i of it being one that a function knows.
template <class Place>
class Placed final : public Source {
 public:
  Placed(const char* who, SourcePtr source, std::int64_t rows, Place place)
      : who_(who), source_(std::move(source)), rows_(rows), place_(std::move(place)) {}
  std::int64_t rows() const override { return rows_; }
  Row row(std::int64_t i, const RowKey& key) const override {
    check_row(who_, i, rows_);
    return source_->row(place_(i), key);
  }
  void expect(std::int64_t i) const override {
    if (i >= 0 && i < rows_) source_->expect(place_(i));
  }

 private:
  const char* who_;
  SourcePtr source_;
  std::int64_t rows_;
  Place place_;
};

class Interleaved final : public Source {
 public:
  explicit Interleaved(std::vector<SourcePtr> sources) : sources_(std::move(sources)) {
    std::int64_t all = 0;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const std::int64_t rows = sources_[i]->rows();
      if (rows < 0 || __builtin_add_overflow(all, rows, &all)) {
        throw DataError(fmt::format(
            "[interleave_rows] source {} has {} rows; expected 0 or more, fewer than 2^63 in all sources", i, rows));
      }
      longest_ = std::max(longest_, rows);
    }
  }
  std::int64_t rows() const override { return rows_before(longest_); }
  Row row(std::int64_t i, const RowKey& key) const override {
    check_row("interleave_rows", i, rows());
    const auto [source, place] = found(i);
    if (source != nullptr) return source->row(place, key);
    throw DataError(fmt::format("[interleave_rows] row {}: a source has other rows than before", i));
  }
  void expect(std::int64_t i) const override {
    if (i < 0 || i >= rows()) return;
    const auto [source, place] = found(i);
    if (source != nullptr) source->expect(place);
  }

 private:
  /// Null where the sources have other rows than they had.
  std::pair<const Source*, std::int64_t> found(std::int64_t i) const {
    std::int64_t first = 0, last = longest_;  // the last turn before which there are no more than i rows
    while (last - first > 1) {
      const std::int64_t middle = first + (last - first) / 2;
      (rows_before(middle) <= i ? first : last) = middle;
    }
    std::int64_t left = i - rows_before(first);
    for (const SourcePtr& source : sources_) {
      if (source->rows() > first && left-- == 0) return {source.get(), first};
    }
    return {nullptr, 0};
  }
  /// How many rows the first so many turns have.
  std::int64_t rows_before(std::int64_t turn) const {
    std::int64_t rows = 0;
    for (const SourcePtr& source : sources_) rows += std::min(source->rows(), turn);
    return rows;
  }

  std::vector<SourcePtr> sources_;
  std::int64_t longest_ = 0;
};

class Kept final : public Source {
 public:
  explicit Kept(SourcePtr source)
      : source_(std::move(source)),
        rows_(static_cast<std::size_t>(source_->rows())),
        read_(std::make_unique<std::once_flag[]>(rows_.size())) {}
  std::int64_t rows() const override { return std::ssize(rows_); }
  Row row(std::int64_t i, const RowKey&) const override {
    check_row("keep_rows", i, rows());
    const auto place = static_cast<std::size_t>(i);
    std::call_once(read_[place], [&] { rows_[place] = source_->row(i, RowKey(0, 0, i)); });
    return rows_[place];
  }

 private:
  SourcePtr source_;
  mutable std::vector<Row> rows_;
  std::unique_ptr<std::once_flag[]> read_;
};

using MakeRow = std::function<Row(Row, std::int64_t, const RowKey&)>;

class FlatMapped final : public Source {
 public:
  FlatMapped(SourcePtr source, std::vector<std::int64_t> ends, MakeRow make)
      : source_(std::move(source)), ends_(std::move(ends)), make_(std::move(make)) {}
  std::int64_t rows() const override { return ends_.back(); }
  /// What is below draws from another key than this function.
  Row row(std::int64_t i, const RowKey& key) const override {
    check_row("flat_map_rows", i, rows());
    const std::int64_t place = maker(i);
    const std::int64_t before = place == 0 ? 0 : ends_[static_cast<std::size_t>(place - 1)];
    return make_(source_->row(place, key.fold_in(1)), i - before, key.fold_in(0));
  }
  void expect(std::int64_t i) const override {
    if (i >= 0 && i < rows()) source_->expect(maker(i));
  }

 private:
  /// The row that makes row i.
  std::int64_t maker(std::int64_t i) const { return std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin(); }

  SourcePtr source_;
  std::vector<std::int64_t> ends_;  ///< Behind the rows that each row of the source makes.
  MakeRow make_;
};

/// How many rows all tables of a batch have.
std::int64_t rows_in(const Row& batch) {
  std::int64_t rows = -1;
  for (const auto& [name, table] : batch) {
    const std::int64_t own = table.type.shape.rank() == 0 ? -1 : table.rows();
    if (own < 1 || (rows >= 0 && rows != own)) {
      throw DataError(fmt::format("[unbatch_rows] '{}' is {}; expected at least one row, as many as the others have",
                                  name, to_string(table.type)));
    }
    rows = own;
  }
  if (rows < 0) throw DataError("[unbatch_rows] a batch without a table; expected at least one");
  return rows;
}

Row row_of(const Row& batch, std::int64_t nth, std::int64_t expected) {
  const std::int64_t rows = rows_in(batch);
  if (nth >= rows) {
    throw DataError(fmt::format("[unbatch_rows] a batch has {} rows; expected {}", rows, expected));
  }
  Row row;
  for (const auto& [name, table] : batch) {
    const ArrayType type{table.type.dtype, table.type.shape.erase(0), {}};
    const auto bytes = static_cast<std::size_t>(type.nbytes());
    const std::byte* from = table.bytes.data() + static_cast<std::size_t>(nth) * bytes;
    row.emplace_hint(row.end(), name, HostTable{type, {from, from + bytes}});
  }
  return row;
}

}  // namespace

SourcePtr slice_rows(SourcePtr source, std::int64_t first, std::int64_t last, std::int64_t step) {
  check_source(source, "slice_rows");
  if (first < 0 || last <= first || last > source->rows() || step < 1) {
    throw ValueError(
        fmt::format("[slice_rows] rows {} to {} by {} of {}; give 0 <= first < last <= rows, and a step of at "
                    "least 1",
                    first, last, step, source->rows()));
  }
  const auto place = [=](std::int64_t i) { return first + i * step; };
  return std::make_shared<Placed<decltype(place)>>("slice_rows", std::move(source), (last - first - 1) / step + 1,
                                                   place);
}

SourcePtr repeat_rows(SourcePtr source, std::int64_t times) {
  check_source(source, "repeat_rows");
  const std::int64_t rows = source->rows();
  if (times < 1 || rows > INT64_MAX / times) {
    throw ValueError(
        fmt::format("[repeat_rows] {} rows {} times; give at least 1, and fewer than 2^63 rows", rows, times));
  }
  const auto place = [rows](std::int64_t i) { return i % rows; };
  return std::make_shared<Placed<decltype(place)>>("repeat_rows", std::move(source), rows * times, place);
}

SourcePtr interleave_rows(std::vector<SourcePtr> sources) {
  if (sources.empty()) throw DataError("[interleave_rows] no source is given; give at least one");
  for (const SourcePtr& source : sources) check_source(source, "interleave_rows");
  return std::make_shared<Interleaved>(std::move(sources));
}

SourcePtr keep_rows(SourcePtr source) {
  check_source(source, "keep_rows");
  return std::make_shared<Kept>(std::move(source));
}

SourcePtr flat_map_rows(SourcePtr source, const std::function<std::int64_t(std::int64_t)>& count, MakeRow make) {
  check_source(source, "flat_map_rows");
  lockstep::detail::expect_held(count, "[flat_map_rows] count");
  lockstep::detail::expect_held(make, "[flat_map_rows] make");
  std::vector<std::int64_t> ends;
  std::int64_t rows = 0;
  for (std::int64_t i = 0; i < source->rows(); ++i) {
    const std::int64_t own = count(i);
    if (own < 0 || own > INT64_MAX - rows) {
      throw ValueError(
          fmt::format("[flat_map_rows] row {} makes {} rows; give 0 or more, fewer than 2^63 in all", i, own));
    }
    ends.push_back(rows += own);
  }
  if (rows == 0) {
    throw DataError(fmt::format("[flat_map_rows] none of {} rows makes a row; make at least one", source->rows()));
  }
  return std::make_shared<FlatMapped>(std::move(source), std::move(ends), std::move(make));
}

SourcePtr unbatch_rows(SourcePtr source, std::int64_t size) {
  check_source(source, "unbatch_rows");
  if (size < 1) throw ValueError(fmt::format("[unbatch_rows] size is {}; give at least 1", size));
  const std::int64_t last = source->rows() - 1;
  const std::int64_t rest = rows_in(source->row(last, RowKey(0, 0, last)));
  if (rest > size)
    throw DataError(fmt::format("[unbatch_rows] the last batch has {} rows; expected {} at most", rest, size));
  const auto count = [=](std::int64_t i) { return i == last ? rest : size; };
  return flat_map_rows(std::move(source), count,
                       [size](const Row& batch, std::int64_t nth, const RowKey&) { return row_of(batch, nth, size); });
}

}  // namespace lockstep::data
