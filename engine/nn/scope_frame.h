#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/cell.h>
#include <lockstep/error.h>
#include <lockstep/model.h>

namespace lockstep::detail {

/// What sums of a dtype are kept in until they are complete: at least float32, integers in 64 bits.
DType sum_dtype(DType dtype);

/// A variable as a running call sees it.
struct Declared {
  VariableSpec spec;
  bool trainable = true;
  Array old_value;
  std::optional<Cell> value = std::nullopt;         ///< Of a non-trainable one, with what was assigned so far.
  std::optional<Cell> contribution = std::nullopt;  ///< Of a `sum` variable, once there is one.
  bool assigned = false;                            ///< Somewhere, perhaps in a branch that is not taken.

  Array now() const { return value ? value->get() : old_value; }
};

/// How many draws a layer has made in a call.
struct Draws {
  std::int64_t known = 0;                     ///< Where no transform was between.
  std::optional<Cell> number = std::nullopt;  ///< Else: a loop or a branch may have made any number.
  Array advanced = {};                        ///< The leaf after the call.
};

/// Variables below `path` are those of `count` layers, stacked.
struct Stack {
  std::string path;
  std::int64_t count = 0;
};
using Stacks = std::vector<Stack>;

/// A mean over rows, in at least float32, and how many rows there were.
struct RealMean {
  Array mean;
  Array count;
};
/// The mean over dimension 0 of the rows whose weight is not 0; 0 where there is none.
RealMean mean_of_real_rows(const Array& x, const Array& weights);

/// What may be declared of a variable whose replicas differ: "declare mean, sum (with accumulate) or only_first_replica",
/// as far as its dtype allows.
std::string declarations_that_combine(DType dtype);

/// What one run of a model function shares between its scopes: `init`, which makes variables, or a call, which finds them.
/// What it makes belongs to the level it was made at, whatever is being traced inside; what changes is kept in cells.
class ScopeFrame {
 public:
  enum class Mode { init, call };

  static std::shared_ptr<ScopeFrame> for_init(Array key);
  static std::shared_ptr<ScopeFrame> for_call(Tree trainable, Tree non_trainable, bool training, Array rows,
                                              const Tree& x);
  /// A layer of a stack, inside the loop over them. `slices`: its variables by path and how many draws it has made, as
  /// `slices_of` stacks them; without them they are only declared, in `parent`.
  static std::shared_ptr<ScopeFrame> for_layer(std::shared_ptr<ScopeFrame> parent, Stack stack,
                                               std::optional<Tree> slices);

  Mode mode() const { return mode_; }
  bool training() const { return training_; }
  /// Whether a model that keeps its variables in `param` was given all its floats in float64, to be run in that.
  bool is_widened(DType param) const;
  /// Weights of the rows, or of the one row that an enclosing vmap over the batch goes through. `x`: a layer's input there,
  /// or null.
  Array rows(const Array* x) const;
  const AxisSet& batch_axes() const { return batch_axes_; }
  /// Whether an enclosing vmap goes through the rows of the batch.
  bool maps_rows(const Array* x) const;
  /// Whether x is of one row, in a vmap that goes through them. A batch without weights is known by its number of rows.
  bool is_one_row(const Array& x) const;
  const std::map<std::string, Declared>& declared() const { return declared_; }

  /// Finds or, in init, makes the variable. Throws StateError and AggregationError as Scope documents.
  /// `stacks`: outermost first, those that the variable is stacked in.
  Declared& declare(const std::string& path, const VariableSpec& spec, bool trainable, const Stacks& stacks = {});
  /// A declared non-trainable variable; `doing` words the error.
  Declared& find_assignable(const std::string& path, std::string_view doing);
  Array next_key(const std::string& path, const Array* x);
  void assign(const std::string& path, const Array& value);
  void accumulate(const std::string& path, const Array& contribution);

  /// No variable comes to be or is found afterwards.
  void close() { open_ = false; }
  /// Trees of the values `init` made.
  Tree made(bool trainable) const;
  /// The non-trainable tree with every assignment combined over the replicas.
  Tree next_state() const;
  /// The stacked variables that a layer declared, as its slices are cut from them.
  Tree slices_of(const ScopeFrame& layer) const;
  /// Of a layer: new values, contributions and draws by path.
  Tree changes() const;
  /// Takes over the stacked changes of the layers.
  void take_changes(const Tree& changes, const Stack& stack);

 private:
  ScopeFrame() : level_(TraceLevel::current()) {}
  Array initial_value(const std::string& path, const VariableSpec& spec) const;
  Array stacked_initial_value(const std::string& path, const VariableSpec& spec, const Stacks& stacks) const;
  Array layer_value(const std::string& path, const VariableSpec& spec, bool trainable, const Stacks& stacks) const;
  Array checked(const std::string& path, const VariableSpec& spec, Array value) const;
  Array next_number(const std::string& path);
  /// The vmaps around this place in the model function, outermost first.
  std::vector<MappedAxis> mapped_axes() const;
  /// The scans around it, likewise.
  std::vector<MappedAxis> scanned_axes() const;
  bool goes_through_rows(const MappedAxis& axis, const Array* x) const;
  void check_no_scan_over_rows(const std::string& path, const Array* x) const;
  Array existing_value(const std::string& path, const VariableSpec& spec, bool trainable) const;
  CellOptions cell_options(const std::string& path, const VariableSpec& spec) const;
  Array combined(const std::string& path, const Declared& variable) const;
  Array summed(const std::string& path, const Declared& variable) const;
  Array mean_over_replicas(const Declared& variable, const AxisSet& axes) const;

  Mode mode_ = Mode::init;
  TraceLevel level_;
  bool open_ = true;
  bool training_ = true;
  Array init_key_;
  Tree trainable_;
  Tree non_trainable_;
  Array rows_;
  AxisSet batch_axes_;
  std::int64_t row_count_ = 0;  ///< Of the batch where the call is; 0: not known.
  std::map<std::string, Declared> declared_;
  std::map<std::string, Draws> draws_;
  std::shared_ptr<ScopeFrame> parent_;  ///< Of a layer of a stack.
  Stack stack_;
  std::optional<Tree> slices_;
};

/// The type of a variable stacked so: shape [counts..., shape...].
VariableSpec stacked(VariableSpec spec, const Stacks& stacks);

/// fold_in(key, first four bytes of SHA-256(path), big-endian): a variable's own key.
Array key_of_path(const Array& key, std::string_view path);

/// Thrown for a leaf that a call needs and its trees do not hold; `stateless_call` completes the text.
class MissingLeaf : public StateError {
 public:
  MissingLeaf(std::string path, bool trainable);
  const std::string& path() const { return path_; }
  bool trainable() const { return trainable_; }

 private:
  std::string path_;
  bool trainable_;
};

}  // namespace lockstep::detail
