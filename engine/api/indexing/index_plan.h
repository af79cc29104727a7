#pragma once

#include <string_view>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/indexing.h>

namespace lockstep::api {

/// What numpy's index expressions mean for one array: as a gather or scatter, or, of integers and slices alone, as a view.
///
/// The result has a dimension for each slice, newaxis, and for all arrays together (their broadcast shape). Windows of the
/// gather run through slices of step 1; other slices are index numbers along a dimension of their own.
class IndexPlan {
 public:
  /// Throws ShapeError, DtypeError or ValueError naming `op`.
  IndexPlan(std::string_view op, const Array& x, const std::vector<Index>& indices);

  /// Whether no index is an array.
  bool is_basic() const { return !has_arrays_; }
  /// The result by slice, reverse and reshape.
  Array view() const;

  const Shape& result_shape() const { return result_; }
  /// The result's shape without what newaxis added.
  const Shape& windows_shape() const { return windows_; }
  /// Index vectors along the last dimension.
  Array indices() const;
  GatherDims gather_dims() const;
  ScatterDims scatter_dims() const;
  Axes slice_sizes() const;

 private:
  /// What happens to one dimension of x.
  struct Dimension {
    enum class Kind : std::uint8_t { window, steps, integer, array } kind;
    std::int64_t start = 0, count = 1, step = 1;
    Array indices;
  };

  void add_index(std::string_view op, const Index& index, int named);
  void add_slice(std::string_view op, const Slice& slice);
  void add_all() { dimensions_.push_back({Dimension::Kind::window, 0, next_extent(), 1, {}}); }
  std::int64_t next_extent() const { return x_.shape()[static_cast<int>(dimensions_.size())]; }
  void arrange();
  void append(const Dimension& dimension, std::size_t dim);
  void append_arrays();

  Array x_;
  std::vector<Dimension> dimensions_;
  /// In the order of the expression: a dimension of x, or -1 for newaxis.
  std::vector<int> order_;
  bool has_arrays_ = false;
  Shape arrays_shape_;

  Shape result_, windows_, batch_;
  Axes window_dims_;             // of windows_
  std::vector<int> batch_dims_;  // per dimension of x: its first dimension in batch_, or -1
  int arrays_at_ = 0;            // where the arrays' dimensions begin in batch_
};

}  // namespace lockstep::api
