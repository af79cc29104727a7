#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/out_of_line.h>
#include <lockstep/owned.h>
#include <lockstep/tree.h>
#include <lockstep/tree_function.h>

namespace lockstep {

// ---- aggregation -----------------------------------------------------------------------------------------------------

/// How a variable's replicas combine: of a trainable one the gradients, of a non-trainable one the new values.
enum class Aggregation : std::uint8_t { none, mean, sum, only_first_replica };
/// "none", "mean", "sum" or "only_first_replica".
LOCKSTEP_API std::string_view name(Aggregation aggregation);
/// Throws AggregationError listing none, mean, sum, only_first_replica.
LOCKSTEP_API Aggregation parse_aggregation(std::string_view text);
/// Throws AggregationError naming path, dtype, aggregation and the legal choices: mean of integers, bool or keys, sum
/// of bool or keys. Mesh or no mesh.
LOCKSTEP_API void check_aggregation(std::string_view path, DType dtype, Aggregation aggregation);

// ---- mesh ------------------------------------------------------------------------------------------------------------

/// A named dimension of a mesh.
struct MeshAxis {
  std::string name;
  std::int64_t size = 1;  ///< A power of two.
  bool operator==(const MeshAxis&) const = default;
};

/// Named axes of logical shards, and the devices that run them: V = product of the sizes, a power of two; this
/// process's devices (times the number of processes) must divide it. Device d runs shards dV/D .. (d+1)V/D - 1.
class LOCKSTEP_API Mesh {
 public:
  Mesh();
  Mesh(const Mesh& other);
  Mesh(Mesh&& other) noexcept;
  Mesh& operator=(const Mesh& other);
  Mesh& operator=(Mesh&& other) noexcept;
  ~Mesh();
  /// Throws MeshError: no axes, an empty or repeated name or one with a comma, a size that is no power of two, devices
  /// that do not divide V, or a device named twice.
  Mesh(std::vector<MeshAxis> axes, std::vector<Device> devices);

  const std::vector<MeshAxis>& axes() const;
  const std::vector<Device>& devices() const;
  std::int64_t shards() const;                     ///< V.
  std::int64_t size(std::string_view axis) const;  ///< Throws MeshError for an axis that there is not.
  bool operator==(const Mesh& other) const;

 private:
  struct Parts;
  detail::SharedObject<const Parts> parts_;  // null where there are no axes
};

/// One axis "batch". shards = 0: the largest power of two up to 8 not above `batch`. devices empty: the largest power
/// of two of cores that divides the shards.
LOCKSTEP_API Mesh data_mesh(std::int64_t shards, std::vector<Device> devices, std::int64_t batch = 8);

// ---- layouts ---------------------------------------------------------------------------------------------------------

/// The mesh axes that cut one dimension, the outermost first: block i of {"data", "model"} has the number whose digits are
/// the coordinates along "data" and "model". No axis: whole.
class LOCKSTEP_API DimensionAxes {
 public:
  DimensionAxes();
  DimensionAxes(const DimensionAxes& other);
  DimensionAxes(DimensionAxes&& other) noexcept;
  DimensionAxes& operator=(const DimensionAxes& other);
  DimensionAxes& operator=(DimensionAxes&& other) noexcept;
  ~DimensionAxes();
  DimensionAxes(const char* axis);                         // NOLINT: implicit by design
  DimensionAxes(std::string axis);                         // NOLINT: implicit by design
  DimensionAxes(std::initializer_list<std::string> axes);  // NOLINT: implicit by design
  DimensionAxes(std::vector<std::string> axes);            // NOLINT: implicit by design
  const std::vector<std::string>& names() const { return names_; }
  bool empty() const;
  bool operator==(const DimensionAxes&) const = default;

 private:
  std::vector<std::string> names_;
};

/// Which mesh axes cut which dimension; all other dimensions are whole on every shard.
class LOCKSTEP_API Layout {
 public:
  Layout();
  Layout(const Layout& other);
  Layout(Layout&& other) noexcept;
  Layout& operator=(const Layout& other);
  Layout& operator=(Layout&& other) noexcept;
  ~Layout();
  explicit Layout(const std::map<std::int64_t, DimensionAxes>& cuts);
  /// `Layout({{0, "data"}, {1, {"model", "expert"}}})`. Throws MeshError for a dimension that is named twice.
  explicit Layout(std::initializer_list<std::pair<std::int64_t, DimensionAxes>> cuts);
  /// From dimension 0 on: `Layout::by_dimension({"data", {}, {"model", "expert"}})`.
  static Layout by_dimension(const std::vector<DimensionAxes>& cuts);
  /// By dimension, those that are cut. A negative dimension counts from the end.
  const std::map<std::int64_t, DimensionAxes>& cuts() const;
  bool operator==(const Layout& other) const;

 private:
  void keep(std::map<std::int64_t, DimensionAxes> cuts);

  detail::SharedObject<const std::map<std::int64_t, DimensionAxes>>
      cuts_;  // null where there are none; copies share them
};
LOCKSTEP_API extern const Layout replicated;  ///< Whole on every shard.
/// Dimension `dim` cut along one axis, or along several: `sharded({"data", "model"}, 1)`.
LOCKSTEP_API Layout sharded(DimensionAxes axes, std::int64_t dim = 0);
/// "replicated", or "dimension 0 along data,model, dimension 2 along expert".
LOCKSTEP_API std::string to_string(const Layout& layout);

/// The layouts of one argument's or result's leaves: one for all of them, or one for each path and all that is below it,
/// as `{{"head/kernel", sharded("model", 1)}, {"layers", replicated}}`. A part "*" of a path stands for any one name, the
/// path "" for the whole tree. A rank-0 leaf is never cut.
class LOCKSTEP_API LeafLayouts {
 public:
  LeafLayouts(const LeafLayouts& other);
  LeafLayouts(LeafLayouts&& other) noexcept;
  LeafLayouts& operator=(const LeafLayouts& other);
  LeafLayouts& operator=(LeafLayouts&& other) noexcept;
  ~LeafLayouts();
  LeafLayouts(Layout all);  // NOLINT: implicit by design
  /// Throws MeshError for a path that is named twice.
  LeafLayouts(std::initializer_list<std::pair<std::string, Layout>> by_path);  // NOLINT: implicit by design
  explicit LeafLayouts(std::vector<std::pair<std::string, Layout>> by_path);
  /// Throws MeshError naming the leaf, "{what}/{path}", that has no layout or two.
  const Layout& of(std::string_view path, std::string_view what) const;
  /// Throws MeshError for an entry under which none of these paths lies.
  void check_used(const std::vector<std::string>& paths, std::string_view what) const;

 private:
  struct Entries;
  detail::SharedObject<const Entries> entries_;
};

// ---- arrays that lie cut ---------------------------------------------------------------------------------------------

/// Whether the array lies cut: each process has the blocks of its own shards alone. Type and shape are those of the whole.
/// A map takes it where the argument's layout is the same, without communication; everything else, printing its elements
/// among it, asks for `gather` or `reshard` first, in one process as in several. False of a traced value.
LOCKSTEP_API bool is_cut(const Array& array);
/// Its layout; `replicated` where it is whole.
LOCKSTEP_API Layout layout_of(const Array& array);
/// The mesh over which it lies. Throws MeshError where it is whole.
LOCKSTEP_API Mesh mesh_of(const Array& array);
/// The whole array, on every process. Every process must call it, in the same order as other calls that communicate.
LOCKSTEP_API Array gather(const Array& array);
LOCKSTEP_API Tree gather(const Tree& tree);  ///< Of every leaf.
/// The same values cut over the mesh as the layout says. Likewise called by every process where the array lies cut
/// otherwise. Throws MeshError or ShapeError where the layout does not fit.
LOCKSTEP_API Array reshard(const Array& array, const Mesh& mesh, const Layout& layout);
LOCKSTEP_API Tree reshard(const Tree& tree, const Mesh& mesh,
                          const LeafLayouts& layouts);  ///< Every leaf as its layout.

/// A block of an array that lies cut.
struct ArrayBlock {
  Shape start;    ///< Of its first element in the whole array.
  Array values;   ///< A whole array.
  int owner = 0;  ///< The lowest rank of the processes that have this block.
};
/// The blocks that this process has. Throws MeshError where the array is whole.
LOCKSTEP_API std::vector<ArrayBlock> local_blocks(const Array& array);
/// An array that lies cut, made block by block: `block(start, shape)` gives the values of one that this process needs.
/// Throws MeshError or ShapeError where the layout does not fit, or a block is of another type.
LOCKSTEP_API Array cut_array(const ArrayType& type, const Mesh& mesh, const Layout& layout,
                             const std::function<Array(const Shape& start, const Shape& shape)>& block);

// ---- the map ---------------------------------------------------------------------------------------------------------

extern template class LOCKSTEP_API detail::OutOfLine<std::vector<LeafLayouts>>;

/// Where a map runs and how its arguments and results are cut.
struct PmapOptions {
  Mesh mesh = {};
  detail::OutOfLine<std::vector<LeafLayouts>> in = {};  ///< One per argument.
  detail::OutOfLine<std::vector<LeafLayouts>> out =
      {};                 ///< One per result (one when the function returns a single tree).
  bool keep_cut = false;  ///< Whether results that their layouts cut stay cut, as `is_cut` says.
};

namespace detail {
/// `results` is how many layouts `out` has: one stands for the whole result.
LOCKSTEP_API Tree pmap_call(const TreeFunction& function, const PmapOptions& options, std::vector<Tree> arguments,
                            std::size_t results);
}  // namespace detail

/// The function mapped over the mesh (shard_map-shaped: rank is kept): it sees one shard's block of every cut argument.
/// Results that vary along an axis their layout does not cut are a MeshError.
template <class F>
auto pmap(F function, PmapOptions options) {
  auto call = [function = std::move(function), options = std::move(options)]<class... Args>(Args&&... args) {
    using Call = detail::CallOf<F, std::remove_cvref_t<Args>...>;
    return from_tree<typename Call::Result>(detail::pmap_call(
        Call::function(function), options, Call::forwarded_trees(std::forward<Args>(args)...), options.out.size()));
  };
  return detail::transformed<F>(std::move(call));
}

// ---- collectives, inside a map ---------------------------------------------------------------------------------------

/// Sum over the replicas of the axes: varying -> invariant. Throws MeshError on an operand that is invariant along one
/// of them (for a count use axis_size) and for an axis that no enclosing map binds. float16 and bfloat16 are added in
/// float32 and rounded once; integers wrap as `+` does, so convert narrow ones first; bool counts in int32.
LOCKSTEP_API Array psum(const Array& x, const AxisSet& axes,
                        const detail::CallSite& at = detail::SourceLocation::current());
LOCKSTEP_API Tree psum(const Tree& tree, const AxisSet& axes);  ///< psum of every leaf.
/// psum divided by the number of replicas, rounded once: a mean of float16 is finite wherever it is a float16. Integers
/// and bool give float32.
LOCKSTEP_API Array pmean(const ArrayOperand& x, const AxisSet& axes);
/// The largest of the replicas: varying -> invariant. NaN where one is; equal ones share the derivative. Throws
/// MeshError as psum, DtypeError for complex numbers.
LOCKSTEP_API Array pmax(const ArrayOperand& x, const AxisSet& axes);
LOCKSTEP_API Array pmin(const ArrayOperand& x, const AxisSet& axes);  ///< The least, likewise.
/// x, which then may differ between the replicas of the axes: invariant -> varying; what varies already is left as it
/// is. Its transpose is psum.
LOCKSTEP_API Array pvary(const ArrayOperand& x, const AxisSet& axes);
namespace detail {
/// What pvary of a tree calls.
LOCKSTEP_API Tree pvary_leaves(const Tree& tree, const AxisSet& axes);
}  // namespace detail
/// pvary of every leaf.
template <std::same_as<Tree> T>
Tree pvary(const T& tree, const AxisSet& axes) {
  return detail::pvary_leaves(tree, axes);
}
/// The blocks of all replicas joined along `dim` in replica order, on each of them; the type still says varying. Throws
/// MeshError on an operand that is invariant along the axis, as all below.
LOCKSTEP_API Array all_gather(const ArrayOperand& x, const std::string& axis, std::int64_t dim = 0);
/// The same, known to be the same on all: varying -> invariant.
LOCKSTEP_API Array all_gather_invariant(const ArrayOperand& x, const std::string& axis, std::int64_t dim = 0);
/// The sum over the replicas, of which replica i gets block i of dimension `dim`. Throws ShapeError where they cannot
/// share its extent equally.
LOCKSTEP_API Array psum_scatter(const ArrayOperand& x, const std::string& axis, std::int64_t dim = 0);
/// Dimension `split_dim` is cut into one block for each replica; the blocks that a replica gets are joined along
/// `concat_dim` in replica order. Throws ShapeError where the replicas cannot share the extent equally.
LOCKSTEP_API Array all_to_all(const ArrayOperand& x, const std::string& axis, std::int64_t split_dim,
                              std::int64_t concat_dim);
/// Each pair's first replica sends its x to the second; replicas nobody sends to get zeros. Throws MeshError where a
/// replica sends or receives twice, or is none of the axis.
LOCKSTEP_API Array ppermute(const ArrayOperand& x, const std::string& axis,
                            const std::vector<std::pair<std::int64_t, std::int64_t>>& pairs);
/// Replica i gets the x of replica permutation[i]. Throws MeshError where that is no permutation of the replicas.
LOCKSTEP_API Array pshuffle(const ArrayOperand& x, const std::string& axis,
                            const std::vector<std::int64_t>& permutation);
/// This replica's number along the axis, 0 to axis_size - 1: an int32 scalar that varies along it. Throws MeshError for
/// an axis that no enclosing map binds.
LOCKSTEP_API Array axis_index(const std::string& axis);
/// How many replicas the axis has, a C++ number. Throws MeshError as axis_index.
LOCKSTEP_API std::int64_t axis_size(const std::string& axis);
/// Axes bound by the enclosing maps.
LOCKSTEP_API AxisSet bound_axes();

}  // namespace lockstep
