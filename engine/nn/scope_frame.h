#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

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
  Array value;         ///< With what was assigned so far.
  Array contribution;  ///< Of a `sum` variable.
  bool assigned = false;
};

/// What one run of a model function shares between its scopes: `init`, which makes variables, or a call, which finds them.
class ScopeFrame {
 public:
  enum class Mode { init, call };

  static std::shared_ptr<ScopeFrame> for_init(Array key);
  static std::shared_ptr<ScopeFrame> for_call(Tree trainable, Tree non_trainable, bool training, Array rows,
                                              AxisSet batch_axes);

  Mode mode() const { return mode_; }
  bool training() const { return training_; }
  const Array& rows() const { return rows_; }
  const AxisSet& batch_axes() const { return batch_axes_; }
  const std::map<std::string, Declared>& declared() const { return declared_; }

  /// Finds or, in init, makes the variable. Throws StateError and AggregationError as Scope documents.
  Declared& declare(const std::string& path, const VariableSpec& spec, bool trainable);
  /// A declared non-trainable variable; `doing` words the error.
  Declared& find_assignable(const std::string& path, std::string_view doing);
  Array next_key(const std::string& path);

  /// No variable comes to be or is found afterwards.
  void close() { open_ = false; }
  /// Trees of the values `init` made.
  Tree made(bool trainable) const;
  /// The non-trainable tree with every assignment combined over the replicas.
  Tree next_state() const;

 private:
  ScopeFrame() = default;
  Array initial_value(const std::string& path, const VariableSpec& spec) const;
  Array existing_value(const std::string& path, const VariableSpec& spec, bool trainable) const;
  Array combined(const std::string& path, const Declared& variable) const;
  Array summed(const std::string& path, const Declared& variable) const;
  Array mean_over_replicas(const Declared& variable, const AxisSet& axes) const;

  Mode mode_ = Mode::init;
  bool open_ = true;
  bool training_ = true;
  Array init_key_;
  Tree trainable_;
  Tree non_trainable_;
  Array rows_;
  AxisSet batch_axes_;
  std::map<std::string, Declared> declared_;
  std::map<std::string, std::int64_t> draws_;
};

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
