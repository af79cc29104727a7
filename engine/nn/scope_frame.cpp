#include "engine/nn/scope_frame.h"

#include <utility>

#include <lockstep/checkpoint.h>
#include <lockstep/debug.h>
#include <lockstep/ops.h>

namespace lockstep::detail {
namespace {

constexpr std::string_view rng_name = "rng";

std::string spec_text(const VariableSpec& spec) {
  return to_string(ArrayType{spec.dtype, spec.shape, {}}) + " aggregation=" + std::string(name(spec.aggregation));
}

bool same_spec(const VariableSpec& a, const VariableSpec& b) {
  return a.shape == b.shape && a.dtype == b.dtype && a.aggregation == b.aggregation;
}

/// A path names a variable or a scope, never both. Throws StateError.
void check_no_scope_between(const std::map<std::string, Declared>& declared, const std::string& path) {
  const auto refuse = [](const std::string& variable, const std::string& below) {
    throw StateError("[scope] '" + variable + "' is a variable, and variable '" + below +
                     "' lies below it; a path names a variable or a scope: rename one of the two");
  };
  for (std::size_t end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1)) {
    if (declared.contains(path.substr(0, end))) refuse(path.substr(0, end), path);
  }
  const auto below = declared.lower_bound(path + "/");
  if (below != declared.end() && below->first.starts_with(path + "/")) refuse(path, below->first);
}

/// Replica 0's value on all replicas, for every dtype.
Array first_replica(const Array& value, const AxisSet& axes) {
  Array first = value;
  for (const std::string& axis : axes) {
    first = all_gather_invariant(expand_dims(first, 0), axis, 0);
    first = squeeze(slice_in_dim(first, 0, 1, 0), {0});
  }
  return first;
}

/// Whether `next`, made by adding, is not what `dtype` holds.
Array overflows(const Array& old, const Array& added, const Array& next, DType dtype) {
  if (next.dtype() != dtype) return convert(convert(next, dtype), next.dtype()) != next;
  if (is_unsigned_integer(dtype)) return next < old;
  return ((old < 0) == (added < 0)) & ((next < 0) != (old < 0));
}

void check_trainable(const std::string& path, const VariableSpec& spec) {
  if (is_inexact(spec.dtype)) return;
  throw DtypeError(
      "[scope] trainable variable '" + path + "' is declared " + spec_text(spec) +
      ": only floats and complex numbers have gradients; declare it with non_trainable, or give it a float "
      "dtype");
}

}  // namespace

DType sum_dtype(DType dtype) {
  if (is_inexact(dtype)) return promote(dtype, float32);
  return is_unsigned_integer(dtype) ? uint64 : int64;
}

Array key_of_path(const Array& key, std::string_view path) {
  const std::string digest = sha256(path).substr(0, 8);
  const auto word = static_cast<std::int64_t>(std::stoul(digest, nullptr, 16));
  return random::fold_in(key, full({}, word, uint32));
}

MissingLeaf::MissingLeaf(std::string path, bool trainable)
    : StateError("[stateless_call] no leaf at '" + path + "'"), path_(std::move(path)), trainable_(trainable) {}

std::shared_ptr<ScopeFrame> ScopeFrame::for_init(Array key) {
  std::shared_ptr<ScopeFrame> frame(new ScopeFrame);
  frame->init_key_ = std::move(key);
  return frame;
}

std::shared_ptr<ScopeFrame> ScopeFrame::for_call(Tree trainable, Tree non_trainable, bool training, Array rows,
                                                 AxisSet batch_axes) {
  std::shared_ptr<ScopeFrame> frame(new ScopeFrame);
  frame->mode_ = Mode::call;
  frame->trainable_ = std::move(trainable);
  frame->non_trainable_ = std::move(non_trainable);
  frame->training_ = training;
  frame->rows_ = std::move(rows);
  frame->batch_axes_ = std::move(batch_axes);
  return frame;
}

Array ScopeFrame::initial_value(const std::string& path, const VariableSpec& spec) const {
  Array value = spec.initializer(key_of_path(init_key_, path), spec.shape, spec.dtype);
  if (value.shape() != spec.shape || value.dtype() != spec.dtype) {
    throw StateError("[init] the initializer of '" + path + "' returned " + to_string(value.type()) +
                     ", the variable is declared " + spec_text(spec) + "; return the declared shape and dtype");
  }
  return value;
}

Array ScopeFrame::existing_value(const std::string& path, const VariableSpec& spec, bool trainable) const {
  const Tree& tree = trainable ? trainable_ : non_trainable_;
  if (!tree.contains(path) || !tree.at(path).is_leaf()) throw MissingLeaf(path, trainable);
  Array value = tree.at(path).array();
  if (value.shape() != spec.shape) {
    throw StateError("[stateless_call] leaf '" + path + "' has shape " + to_string(value.shape()) +
                     ", its declaration says " + to_string(spec.shape) +
                     "; pass the trees that init returned for this model and input");
  }
  // Float leaves may come in another float dtype (a model run in float64); everything else is as declared.
  if (value.dtype() != spec.dtype && !(is_float(value.dtype()) && is_float(spec.dtype))) {
    throw StateError("[stateless_call] leaf '" + path + "' has dtype " + std::string(lockstep::name(value.dtype())) +
                     ", its declaration says " + std::string(lockstep::name(spec.dtype)) +
                     "; pass the trees that init returned for this model");
  }
  return value;
}

Declared& ScopeFrame::declare(const std::string& path, const VariableSpec& spec, bool trainable) {
  if (!open_) {
    throw StateError("[scope] variable '" + path +
                     "' was asked for after the model function had returned; declare variables inside the function "
                     "given to Model: init makes them, stateless_call finds them");
  }
  check_aggregation(path, spec.dtype, spec.aggregation);
  if (trainable) check_trainable(path, spec);
  if (const auto found = declared_.find(path); found != declared_.end()) {
    Declared& known = found->second;
    if (!same_spec(known.spec, spec) || known.trainable != trainable) {
      throw StateError("[scope] variable '" + path + "' is declared twice: " + spec_text(known.spec) +
                       (known.trainable ? " trainable" : " non-trainable") + ", then " + spec_text(spec) +
                       (trainable ? " trainable" : " non-trainable") +
                       "; use another name, or the same spec to share the variable");
    }
    return known;
  }
  check_no_scope_between(declared_, path);
  Declared variable{.spec = spec, .trainable = trainable, .old_value = {}, .value = {}, .contribution = {}};
  variable.old_value = mode_ == Mode::init ? initial_value(path, spec) : existing_value(path, spec, trainable);
  variable.value = variable.old_value;
  return declared_.emplace(path, std::move(variable)).first->second;
}

Declared& ScopeFrame::find_assignable(const std::string& path, std::string_view doing) {
  const auto found = declared_.find(path);
  if (found == declared_.end()) {
    throw StateError("[" + std::string(doing) + "] no variable '" + path +
                     "' is declared; declare it with non_trainable first");
  }
  if (found->second.trainable) {
    throw StateError("[" + std::string(doing) + "] variable '" + path +
                     "' is trainable; only non-trainable variables take new values, the optimizer moves the others");
  }
  return found->second;
}

Array ScopeFrame::next_key(const std::string& scope_path) {
  const std::string path = scope_path.empty() ? std::string(rng_name) : scope_path + "/" + std::string(rng_name);
  const VariableSpec spec{.shape = {3},
                          .dtype = uint32,
                          .initializer =
                              [](const Array& key, const Shape&, DType) {
                                return concatenate({random::key_data(key), zeros({1}, uint32)}, 0);
                              },
                          .aggregation = Aggregation::none};
  Declared& leaf = declare(path, spec, false);
  const Array key = random::wrap_key_data(slice_in_dim(leaf.old_value, 0, 2, 0));
  const Array count = slice_in_dim(leaf.old_value, 2, 3, 0);
  if (training_ && !leaf.assigned) {
    leaf.value = concatenate({slice_in_dim(leaf.old_value, 0, 2, 0), count + ones({1}, uint32)}, 0);
    leaf.assigned = true;
  }
  const std::int64_t draw = draws_[path]++;
  return random::fold_in(random::fold_in(key, squeeze(count, {0})), full({}, draw, uint32));
}

Tree ScopeFrame::made(bool trainable) const {
  Tree tree = Tree::dict({});
  for (const auto& [path, variable] : declared_) {
    if (variable.trainable == trainable) tree = tree.with(path, Tree(variable.old_value));
  }
  return tree;
}

Tree ScopeFrame::next_state() const {
  Tree next = non_trainable_;
  for (const auto& [path, variable] : declared_) {
    if (variable.assigned) next = next.with(path, Tree(combined(path, variable)));
  }
  return next;
}

Array ScopeFrame::combined(const std::string& path, const Declared& variable) const {
  if (variable.spec.aggregation == Aggregation::sum) return summed(path, variable);
  const AxisSet axes = variable.value.type().varying;
  if (axes.empty()) return variable.value;
  switch (variable.spec.aggregation) {
    case Aggregation::mean:
      return mean_over_replicas(variable, axes);
    case Aggregation::only_first_replica:
      return first_replica(variable.value, axes);
    default:
      throw AggregationError("[assign] the new value of '" + path + "' is " + to_string(variable.value.type()) +
                             ": replicas may differ along " + to_string(axes) +
                             ", but the variable declares aggregation=none; declare mean, sum (with accumulate) or "
                             "only_first_replica, or make the value invariant with psum or pmean");
  }
}

Array ScopeFrame::summed(const std::string& path, const Declared& variable) const {
  const AxisSet axes = variable.contribution.type().varying;
  // An invariant contribution is every replica's: psum needs it varying, and then counts each once.
  const AxisSet over = axes.empty() ? batch_axes_ : axes;
  const Array added =
      over.empty() ? variable.contribution : psum(pvary(variable.contribution, over.without(axes)), over);
  const Array old = convert(variable.old_value, added.dtype());
  const Array next = old + added;
  const DType dtype = variable.old_value.dtype();
  if (is_integer(dtype)) {
    error_if(overflows(old, added, next, dtype), "[accumulate] the sum '" + path + "' is beyond what " +
                                                     std::string(name(dtype)) +
                                                     " holds; declare the variable with a wider dtype");
  }
  return convert(next, dtype);
}

Array ScopeFrame::mean_over_replicas(const Declared& variable, const AxisSet& axes) const {
  if (!rows_.has_value() || rows_.type().varying.empty()) return pmean(variable.value, axes);
  const Array has_rows = any(rows_ != 0);
  const DType dtype = variable.value.dtype();
  const Array value = convert(variable.value, sum_dtype(dtype));
  const Array count = psum(pvary(convert(has_rows, value.dtype()), axes.without(has_rows.type().varying)), axes);
  const Array total = psum(where(has_rows, value, 0), axes);
  return where(count == 0, variable.old_value, convert(total / where(count == 0, 1, count), dtype));
}

}  // namespace lockstep::detail
