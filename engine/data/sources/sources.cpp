#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <lockstep/error.h>
#include <lockstep/moved_from.h>
#include <lockstep/sources.h>

#include "engine/data/gathered_rows.h"
#include "engine/data/prefetch.h"

namespace lockstep::data {
namespace {

class Tables final : public Source {
 public:
  explicit Tables(std::vector<std::pair<std::string, HostTable>> tables) : tables_(std::move(tables)) {
    for (const auto& [name, table] : tables_) {
      Shape shape;
      for (int d = 1; d < table.type.shape.rank(); ++d) shape.append(table.type.shape[d]);
      types_.push_back({table.type.dtype, shape, {}});
      bytes_.push_back(static_cast<std::size_t>(types_.back().nbytes()));
    }
  }
  std::int64_t rows() const override { return tables_[0].second.rows(); }
  Row row(std::int64_t i, const RowKey&) const override {
    check_row("in_memory", i, rows());
    Row row;
    for (std::size_t k = 0; k < tables_.size(); ++k) {
      const std::byte* from = tables_[k].second.bytes.data() + static_cast<std::size_t>(i) * bytes_[k];
      row.emplace_hint(row.end(), tables_[k].first, HostTable{types_[k], {from, from + bytes_[k]}});
    }
    return row;
  }
  void expect(std::int64_t i) const override {
    if (i < 0 || i >= rows()) return;
    for (std::size_t k = 0; k < tables_.size(); ++k) {
      prefetch(tables_[k].second.bytes.data() + static_cast<std::size_t>(i) * bytes_[k], bytes_[k]);
    }
  }

 private:
  std::vector<std::pair<std::string, HostTable>> tables_;
  std::vector<ArrayType> types_;    ///< Of one row.
  std::vector<std::size_t> bytes_;  ///< Of one row.
};

class Generated final : public Source {
 public:
  Generated(std::int64_t rows, std::function<Row(std::int64_t, const RowKey&)> make)
      : rows_(rows), make_(std::move(make)) {}
  std::int64_t rows() const override { return rows_; }
  Row row(std::int64_t i, const RowKey& key) const override {
    check_row("generated", i, rows_);
    return make_(i, key);
  }

 private:
  std::int64_t rows_;
  std::function<Row(std::int64_t, const RowKey&)> make_;
};

class Mapped final : public Source {
 public:
  Mapped(SourcePtr source, std::function<Row(Row, const RowKey&)> function)
      : source_(std::move(source)), function_(std::move(function)) {}
  std::int64_t rows() const override { return source_->rows(); }
  /// What is below draws from another key than this function, so that two functions do not draw the same.
  Row row(std::int64_t i, const RowKey& key) const override {
    return function_(source_->row(i, key.fold_in(1)), key.fold_in(0));
  }
  void expect(std::int64_t i) const override { source_->expect(i); }

 private:
  SourcePtr source_;
  std::function<Row(Row, const RowKey&)> function_;
};

class Chosen final : public Source {
 public:
  Chosen(SourcePtr source, std::vector<std::int64_t> chosen) : source_(std::move(source)), chosen_(std::move(chosen)) {}
  std::int64_t rows() const override { return std::ssize(chosen_); }
  Row row(std::int64_t i, const RowKey& key) const override {
    check_row("filter_rows", i, rows());
    return source_->row(chosen_[static_cast<std::size_t>(i)], key);
  }
  void expect(std::int64_t i) const override {
    if (i >= 0 && i < rows()) source_->expect(chosen_[static_cast<std::size_t>(i)]);
  }

 private:
  SourcePtr source_;
  std::vector<std::int64_t> chosen_;
};

class Concatenated final : public Source {
 public:
  explicit Concatenated(std::vector<SourcePtr> sources) : sources_(std::move(sources)) {
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const std::int64_t rows = sources_[i]->rows();
      std::int64_t end = ends_.empty() ? 0 : ends_.back();
      if (rows < 0 || __builtin_add_overflow(end, rows, &end)) {
        throw DataError("[concatenate_rows] source " + std::to_string(i) + " has " + std::to_string(rows) +
                        " rows, the sources before it " + std::to_string(ends_.empty() ? 0 : ends_.back()) +
                        "; expected 0 or more, fewer than 2^63 in all");
      }
      ends_.push_back(end);
    }
  }
  std::int64_t rows() const override { return ends_.back(); }
  Row row(std::int64_t i, const RowKey& key) const override {
    check_row("concatenate_rows", i, rows());
    const auto [source, place] = found(i);
    return source->row(place, key);
  }
  void expect(std::int64_t i) const override {
    if (i < 0 || i >= rows()) return;
    const auto [source, place] = found(i);
    source->expect(place);
  }

 private:
  std::pair<const Source*, std::int64_t> found(std::int64_t i) const {
    const auto place = std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin();
    const std::int64_t before = place == 0 ? 0 : ends_[static_cast<std::size_t>(place - 1)];
    return {sources_[static_cast<std::size_t>(place)].get(), i - before};
  }

  std::vector<SourcePtr> sources_;
  std::vector<std::int64_t> ends_;
};

}  // namespace

Source::~Source() = default;
void Source::expect(std::int64_t /*i*/) const {}

void check_source(const SourcePtr& source, const std::string& who) {
  if (source == nullptr) throw DataError("[" + who + "] the source is null; give one that was made, by in_memory say");
}

void detail::check_elements(const HostTable& table, DType dtype) {
  if (table.type.dtype == dtype && std::ssize(table.bytes) == table.type.nbytes()) return;
  throw DtypeError("[elements] the table is " + to_string(table.type) + " with " + std::to_string(table.bytes.size()) +
                   " bytes, asked for as " + std::string(name(dtype)) + "; ask for its own dtype");
}

HostTable detail::host_table(DType dtype, std::span<const std::byte> bytes, const Shape& shape) {
  const ArrayType type{dtype, shape, {}};
  if (type.nbytes() != std::ssize(bytes)) {
    throw ShapeError("[host_table] " + std::to_string(bytes.size() / size_of(dtype)) + " elements for " +
                     to_string(type) + "; give as many as the shape has");
  }
  return {type, {bytes.begin(), bytes.end()}};
}

SourcePtr in_memory(Dataset dataset) {
  check_dataset(dataset, "in_memory");
  std::vector<std::pair<std::string, HostTable>> tables;
  tables.emplace_back("x", std::move(dataset.x));
  tables.emplace_back("y", std::move(dataset.y));
  return std::make_shared<Tables>(std::move(tables));
}

SourcePtr in_memory(const Tree& rows) {
  common_rows(rows, "in_memory");
  const std::vector<std::string> paths = rows.paths();
  const std::vector<Array> leaves = rows.leaves();
  std::vector<std::pair<std::string, HostTable>> tables;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    tables.emplace_back(paths[i], HostTable{{leaves[i].dtype(), leaves[i].shape(), {}}, leaves[i].to_bytes()});
  }
  std::sort(tables.begin(), tables.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return std::make_shared<Tables>(std::move(tables));
}

SourcePtr generated(std::int64_t rows, std::function<Row(std::int64_t, const RowKey&)> make) {
  if (rows < 1) throw ValueError("[generated] rows is " + std::to_string(rows) + "; it must be at least 1");
  lockstep::detail::expect_held(make, "[generated] the function");
  return std::make_shared<Generated>(rows, std::move(make));
}

SourcePtr map_rows(SourcePtr source, std::function<Row(Row, const RowKey&)> function) {
  check_source(source, "map_rows");
  lockstep::detail::expect_held(function, "[map_rows] the function");
  return std::make_shared<Mapped>(std::move(source), std::move(function));
}

SourcePtr filter_rows(const SourcePtr& source, const std::function<bool(const Row&)>& keep) {
  check_source(source, "filter_rows");
  lockstep::detail::expect_held(keep, "[filter_rows] the function");
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < source->rows(); ++i) {
    if (keep(source->row(i, RowKey(0, 0, i)))) chosen.push_back(i);
  }
  if (chosen.empty()) {
    throw DataError("[filter_rows] none of " + std::to_string(source->rows()) + " rows is kept; keep at least one");
  }
  return std::make_shared<Chosen>(source, std::move(chosen));
}

SourcePtr concatenate_rows(std::vector<SourcePtr> sources) {
  if (sources.empty()) throw DataError("[concatenate_rows] no source is given; give at least one");
  for (const SourcePtr& source : sources) check_source(source, "concatenate_rows");
  return std::make_shared<Concatenated>(std::move(sources));
}

}  // namespace lockstep::data
