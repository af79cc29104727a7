#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/batches.h>
#include <lockstep/export.h>
#include <lockstep/out_of_line.h>
#include <lockstep/owned.h>
#include <lockstep/tree.h>

/// Rows read at random, changed one by one, mixed, packed and put into batches ahead of time. What a batch holds depends
/// on seed, epoch and rows alone, never on how many threads read it.
namespace lockstep::data {

/// A row's own random numbers. They depend on seed, epoch and row (Threefry), and so on no thread and no process.
class LOCKSTEP_API RowKey {
 public:
  RowKey(std::uint64_t seed, std::uint64_t epoch, std::int64_t row);
  /// Those of several rows, in less time than one by one.
  static std::vector<RowKey> of_rows(std::uint64_t seed, std::uint64_t epoch, std::span<const std::int64_t> rows);
  /// Another key for each n: one for each thing that is drawn.
  RowKey fold_in(std::uint32_t n) const;
  /// 64 random bits, others for each counter.
  std::uint64_t bits(std::uint64_t counter = 0) const;
  double uniform(std::uint64_t counter = 0) const;  ///< On [0, 1).
  /// A whole number of [0, n); its bias is below n / 2^64. Throws ValueError for n < 1.
  std::int64_t below(std::int64_t n, std::uint64_t counter = 0) const;
  bool operator==(const RowKey&) const = default;

 private:
  RowKey() = default;

  std::uint32_t words_[2] = {};
};

/// What one row is made of, by name (a path of the batch's tree, "x" or "image/pixels"), without a dimension for rows.
using Row = std::map<std::string, HostTable>;

namespace detail {
/// Throws DtypeError unless the table holds elements of that type, and all their bytes.
LOCKSTEP_API void check_elements(const HostTable& table, DType dtype);
/// The table of these bytes. Throws ShapeError if their number is not the type's.
LOCKSTEP_API HostTable host_table(DType dtype, std::span<const std::byte> bytes, const Shape& shape);
}  // namespace detail

/// A table's elements. Throws DtypeError for another T than the table's.
template <class T>
std::span<const T> elements(const HostTable& table) {
  detail::check_elements(table, dtype_of<T>());
  return {reinterpret_cast<const T*>(table.bytes.data()), table.bytes.size() / sizeof(T)};
}
template <class T>
std::span<T> elements(HostTable& table) {
  detail::check_elements(table, dtype_of<T>());
  return {reinterpret_cast<T*>(table.bytes.data()), table.bytes.size() / sizeof(T)};
}
/// A table of these elements, row-major. Throws ShapeError if their number is not the shape's.
template <class T>
HostTable host_table(std::span<const T> values, const Shape& shape) {
  return detail::host_table(dtype_of<T>(), std::as_bytes(values), shape);
}
template <class T>
HostTable host_table(const std::vector<T>& values, const Shape& shape) {
  return host_table(std::span<const T>(values), shape);
}

/// Rows that can be read in any order, by several threads at once. Derive from it for data of your own.
class LOCKSTEP_API Source {
 public:
  virtual ~Source();
  virtual std::int64_t rows() const = 0;
  /// Row i of [0, rows()). The key is for what is drawn; sources that only read leave it alone.
  virtual Row row(std::int64_t i, const RowKey& key) const = 0;
  /// Row i will be asked for in a moment: what it is read from may be fetched meanwhile. For time alone: `row` is asked for
  /// rows that were never expected, too. Does nothing where it is not overridden.
  virtual void expect(std::int64_t i) const;
};
/// How sources are passed on: shared, and never changed.
using SourcePtr = std::shared_ptr<const Source>;

/// "x" and "y" of a data set. Throws DataError as Loader does.
LOCKSTEP_API SourcePtr in_memory(Dataset dataset);
/// The leaves of a tree of arrays, which have one number of rows (dimension 0), by path. Throws DataError otherwise.
LOCKSTEP_API SourcePtr in_memory(const Tree& rows);
/// Rows that a function makes: synthetic data, or files in a form of your own. Throws ValueError for rows < 1.
LOCKSTEP_API SourcePtr generated(std::int64_t rows, std::function<Row(std::int64_t, const RowKey&)> make);
/// Each row changed by a function, which must depend on row and key alone.
LOCKSTEP_API SourcePtr map_rows(SourcePtr source, std::function<Row(Row, const RowKey&)> function);
/// The rows that are to be kept, in order. All are read once, here; the key they are read with is that of epoch 0.
/// Throws DataError where none is kept.
LOCKSTEP_API SourcePtr filter_rows(const SourcePtr& source, const std::function<bool(const Row&)>& keep);
/// One source behind the other. Throws DataError for none.
LOCKSTEP_API SourcePtr concatenate_rows(std::vector<SourcePtr> sources);

/// The rows of [first, last), every `step`th. Throws ValueError unless 0 <= first < last <= rows and step >= 1.
LOCKSTEP_API SourcePtr slice_rows(SourcePtr source, std::int64_t first, std::int64_t last, std::int64_t step = 1);
/// All rows so many times over; each time draws anew. Throws ValueError for times below 1.
LOCKSTEP_API SourcePtr repeat_rows(SourcePtr source, std::int64_t times);
/// A row of each source in turn, and of those that have some left where others end. Throws DataError for no source.
LOCKSTEP_API SourcePtr interleave_rows(std::vector<SourcePtr> sources);
/// Each row once read (with the key of epoch 0) stays in memory, so that a source that draws gives one draw for good.
LOCKSTEP_API SourcePtr keep_rows(SourcePtr source);
/// Rows that become several, or none: `count` says how many row i makes, for all of which it is asked once, here; `make`
/// makes the nth of them, drawing from a key of its own. Throws ValueError for a count below 0, DataError where none is
/// left.
LOCKSTEP_API SourcePtr flat_map_rows(SourcePtr source, const std::function<std::int64_t(std::int64_t row)>& count,
                                     std::function<Row(Row, std::int64_t nth, const RowKey&)> make);
/// Rows that are batches, `size` each, as single rows: batches of another size are those of a loader. The last may have
/// fewer. Throws ValueError for a size below 1, DataError for rows without such a dimension.
LOCKSTEP_API SourcePtr unbatch_rows(SourcePtr source, std::int64_t size);

/// How `mix` draws from several sources.
struct MixOptions {
  lockstep::detail::OutOfLine<std::vector<double>> weights = {};  ///< One a source, in any scale; none: all alike.
  std::uint64_t seed = 0;                                         ///< Of the order.
  /// How many rows the mixture has; a source that ends is read again in another order. 0: as many as no row is read
  /// twice for.
  std::int64_t rows = 0;
};
/// Rows of several sources in the ratio of the weights, taken as thousandths: each run of a thousand rows (or of the
/// least whole numbers in that ratio) has exactly so many of each, and all of one source are read before one is read
/// again. Its order is random already: read it with shuffle = false to keep the ratio in every batch. Any row is found
/// in O(1). Throws ValueError for weights that are no positive numbers, are not one a source, or are below a
/// thousandth; DataError for a source too short for one run where `rows` is 0.
LOCKSTEP_API SourcePtr mix(std::vector<SourcePtr> sources, MixOptions options = {});

/// How `pack` fills rows.
struct PackOptions {
  std::int64_t length = 1024;    ///< Tokens of a packed row.
  std::string field = "tokens";  ///< Of the documents: int32[any length].
  int open_rows = 64;            ///< Rows that a document may still go into: more fill better and take longer.
};
/// Documents of many lengths in rows of one: "tokens" int32[length], "segments" (1, 2, ... for the documents of a row, 0
/// for padding) and "positions" (of a token in its document; 0 for padding), as attention over segments needs them. A
/// document longer than a row is cut into parts, each a segment of its own. Each token stands in exactly one row, by
/// first fit over the documents in order. All documents are read once, here. Throws ValueError for a length or open_rows
/// below 1, DataError for documents without such a field.
LOCKSTEP_API SourcePtr pack(SourcePtr documents, PackOptions options = {});

/// How many threads make batches before they are asked for.
struct PrefetchOptions {
  /// 0: a batch is made when it is asked for, on the thread that asks. Nothing, the default: one thread where there is a
  /// core that devices leave it; where they take all, a batch is made when it is asked for, by the threads of devices that
  /// wait for it meanwhile.
  std::optional<int> threads = {};
  int ahead = 2;  ///< Batches that threads make in advance.
};

/// Batches of a source's rows, made in advance by threads. The order is that of a Loader with the same options and as many
/// rows, whatever makes them; a saved position goes on anywhere. Names of a row are paths of the batch; the path `weight`
/// holds 1 for real rows and 0 for padding (nothing where the name is empty).
class LOCKSTEP_API SourceLoader {
 public:
  /// Throws ValueError for a batch <= 0, threads < 0 or ahead < 1, DataError for no source, and for a batch above the rows
  /// when drop_last is set, or a last batch to be padded without weights.
  SourceLoader(SourcePtr source, LoaderOptions options, PrefetchOptions prefetch = {}, std::string weight = "weight");
  SourceLoader(SourceLoader&&) noexcept;
  SourceLoader& operator=(SourceLoader&&) noexcept;
  ~SourceLoader();

  std::int64_t batches_per_epoch() const;
  /// The next batch; after an epoch's last one the next epoch begins. What a source or a function threw for one of its
  /// rows is thrown here, and the position stays. Throws DataError for rows whose names, dtypes or shapes differ.
  template <class B = Tree>
  B next() {
    return from_tree<B>(next_tree());
  }
  /// Behind the last batch that was given out, however many were made in advance.
  Position position() const;
  const LoaderOptions& options() const;
  /// As a Loader's. Throws DataError for a position beyond the rows.
  void seek(Position position);

 private:
  class Batches;
  Tree next_tree();

  lockstep::detail::Owned<Batches> batches_;
};

}  // namespace lockstep::data
