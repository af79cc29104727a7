#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/owned.h>
#include <lockstep/tree.h>

namespace lockstep {

/// Rows that train together. weight[i] is 1 for a real row and 0 for padding, which repeats a real row and stands last.
struct Batch {
  Array x;
  Array y;
  Array weight;
};
LOCKSTEP_TREE(Batch, x, y, weight);
extern template class LOCKSTEP_API detail::StructTree<Batch>;

namespace data {

/// An array in host memory, row-major.
struct HostTable {
  ArrayType type;
  std::vector<std::byte> bytes;
  std::int64_t rows() const { return type.shape.rank() == 0 ? 0 : type.shape[0]; }
};

/// Inputs and integer labels of equal row count.
struct Dataset {
  HostTable x;
  HostTable y;
  std::int64_t classes = 0;
  std::int64_t rows() const { return x.rows(); }
};

/// A keyed permutation of 0..n-1 (Feistel network over Threefry, cycle-walking): position -> row in O(1), the same on
/// any number of devices. Throws ValueError for n <= 0.
class LOCKSTEP_API Permutation {
 public:
  Permutation(std::uint64_t seed, std::uint64_t epoch, std::int64_t n);
  std::int64_t operator()(std::int64_t position) const;

 private:
  std::uint32_t key_[2];
  std::int64_t n_;
  int half_bits_;
};

/// Where a loader stands; part of a saved run.
struct Position {
  std::int64_t epoch = 0;
  std::int64_t row = 0;  ///< Rows of this epoch already given out.
  bool operator==(const Position&) const = default;
};

/// Which rows make a batch, in which order.
struct LoaderOptions {
  std::int64_t batch = 64;
  std::uint64_t seed = 0;  ///< Of the order, with the epoch's number.
  bool shuffle = true;
  bool drop_last = true;  ///< false: the last batch is padded to full size by repeating its last row with weight 0.
};

/// Batches of global rows in an order that only (seed, epoch, dataset size) decide. Batches run on across epochs' ends
/// only as drop_last says.
class LOCKSTEP_API Loader {
 public:
  /// Throws ValueError for a batch <= 0, DataError for no data set, for x and y that differ in rows or lack bytes, and
  /// for a batch above the data set's rows when drop_last is set.
  Loader(std::shared_ptr<const Dataset> dataset, LoaderOptions options);

  std::int64_t batches_per_epoch() const;
  /// The next batch; after an epoch's last one the next epoch begins.
  Batch next();
  Position position() const { return position_; }
  const LoaderOptions& options() const { return options_; }
  /// Where drop_last drops all that is left of the epoch there, to the next one. Throws DataError for a position beyond the
  /// data set.
  void seek(Position position);

 private:
  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  Position position_;
};

/// Batches of any tree of arrays that have one number of rows (dimension 0): a struct with LOCKSTEP_TREE, a dict,
/// Batch. A leaf of rank 0 is in every batch as it is. The order is that of a Loader with the same options and as many
/// rows. `weight` is the path of the leaf that holds weights of rows; where the tree has such a place and nothing in it, batches have ones there. Only a tree with
/// that place can have its last batch padded.
class LOCKSTEP_API TreeLoader {
 public:
  /// Throws ValueError for a batch <= 0, DataError for leaves that are empty or differ in rows, for a batch above the
  /// rows when drop_last is set, and for a last batch to be padded without weights.
  TreeLoader(Tree rows, LoaderOptions options, std::string weight = "weight");
  template <class B>
  explicit TreeLoader(const B& rows, LoaderOptions options, std::string weight = "weight")
      : TreeLoader(to_tree(rows), options, std::move(weight)) {}

  std::int64_t batches_per_epoch() const;
  /// The next batch; after an epoch's last one the next epoch begins.
  template <class B = Tree>
  B next() {
    return from_tree<B>(next_tree());
  }
  Position position() const { return position_; }
  const LoaderOptions& options() const { return options_; }
  /// As a Loader's. Throws DataError for a position beyond the rows.
  void seek(Position position);

 private:
  Tree next_tree();

  Tree structure_;                                                       ///< Its leaves stand for the tables.
  lockstep::detail::SharedObject<const std::vector<HostTable>> tables_;  ///< In order of path.
  std::string weight_;                                                   ///< Empty: there is no place for weights.
  LoaderOptions options_;
  Position position_;
};

/// `rows` of a dataset as a Batch, padded to `size` rows. Throws DataError for rows that the data set does not have,
/// and as a Loader does for data sets that do not fit together.
LOCKSTEP_API Batch gather_batch(const Dataset& dataset, const std::vector<std::int64_t>& rows, std::int64_t size);

}  // namespace data
}  // namespace lockstep
