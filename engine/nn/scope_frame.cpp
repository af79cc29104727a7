#include "engine/nn/scope_frame.h"

#include <utility>

#include <lockstep/checkpoint.h>
#include <lockstep/control_flow.h>
#include <lockstep/debug.h>
#include <lockstep/ops.h>
#include <lockstep/tree_of_paths.h>

namespace lockstep::detail {
namespace {

constexpr std::string_view rng_name = "rng";

std::uint32_t path_word(std::string_view path) {
  return static_cast<std::uint32_t>(std::stoul(sha256(path).substr(0, 8), nullptr, 16));
}

/// The paths of the layers' own variables, "blocks/3/kernel" for "blocks/kernel", the last stack's number fastest.
std::vector<std::string> slice_paths(const std::string& path, const Stacks& stacks) {
  if (stacks.empty()) return {path};
  const Stack& outer = stacks.front();
  const std::size_t cut = outer.path.size();
  const std::string below = cut == 0 ? "/" + path : path.substr(cut);
  Stacks inner(stacks.begin() + 1, stacks.end());
  std::vector<std::string> paths;
  for (std::int64_t i = 0; i < outer.count; ++i) {
    const std::string front = (cut == 0 ? "" : outer.path + "/") + std::to_string(i);
    Stacks moved = inner;
    for (Stack& stack : moved) stack.path = front + (cut == 0 ? "/" + stack.path : stack.path.substr(cut));
    for (std::string& slice : slice_paths(front + below, moved)) paths.push_back(std::move(slice));
  }
  return paths;
}

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

/// What all leaves have as their first extent; 0 where they differ.
std::int64_t rows_in(const Tree& x) {
  std::optional<std::int64_t> rows;
  for (const Array& leaf : x.leaves()) {
    if (leaf.ndim() == 0 || rows.value_or(leaf.dim(0)) != leaf.dim(0)) return 0;
    rows = leaf.dim(0);
  }
  return rows.value_or(0);
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
  return random::fold_in(key, full({}, static_cast<std::int64_t>(path_word(path)), uint32));
}

MissingLeaf::MissingLeaf(std::string path, bool trainable)
    : StateError("[stateless_call] no leaf at '" + path + "'"), path_(std::move(path)), trainable_(trainable) {}

std::shared_ptr<ScopeFrame> ScopeFrame::for_init(Array key) {
  std::shared_ptr<ScopeFrame> frame(new ScopeFrame);
  frame->init_key_ = std::move(key);
  return frame;
}

std::shared_ptr<ScopeFrame> ScopeFrame::for_layer(std::shared_ptr<ScopeFrame> parent, Stack stack,
                                                  std::optional<Tree> slices) {
  std::shared_ptr<ScopeFrame> frame(new ScopeFrame);
  frame->mode_ = parent->mode_;
  frame->training_ = parent->training_;
  frame->rows_ = parent->rows_;
  frame->batch_axes_ = parent->batch_axes_;
  frame->row_count_ = parent->row_count_;
  frame->parent_ = std::move(parent);
  frame->stack_ = std::move(stack);
  frame->slices_ = std::move(slices);
  return frame;
}

std::shared_ptr<ScopeFrame> ScopeFrame::for_call(Tree trainable, Tree non_trainable, bool training, Array rows,
                                                 const Tree& x) {
  std::shared_ptr<ScopeFrame> frame(new ScopeFrame);
  frame->mode_ = Mode::call;
  frame->trainable_ = std::move(trainable);
  frame->non_trainable_ = std::move(non_trainable);
  frame->training_ = training;
  frame->row_count_ = rows.has_value() ? rows.dim(0) : rows_in(x);
  frame->rows_ = std::move(rows);
  for (const Array& leaf : x.leaves()) frame->batch_axes_ = frame->batch_axes_.joined(leaf.type().varying);
  return frame;
}

bool ScopeFrame::is_widened(DType param) const {
  if (parent_ != nullptr) return parent_->is_widened(param);
  if (param == float64 || mode_ == Mode::init) return false;
  bool found = false;
  for (const Array& leaf : trainable_.leaves()) {
    if (is_float(leaf.dtype()) && leaf.dtype() != float64) return false;
    found = found || leaf.dtype() == float64;
  }
  return found;
}

VariableSpec stacked(VariableSpec spec, const Stacks& stacks) {
  for (auto stack = stacks.rbegin(); stack != stacks.rend(); ++stack) spec.shape = spec.shape.insert(0, stack->count);
  return spec;
}

Array ScopeFrame::checked(const std::string& path, const VariableSpec& spec, Array value) const {
  if (value.shape() == spec.shape && value.dtype() == spec.dtype) return value;
  throw StateError("[init] the initializer of '" + path + "' returned " + to_string(value.type()) +
                   ", the variable is declared " + spec_text(spec) + "; return the declared shape and dtype");
}

Array ScopeFrame::initial_value(const std::string& path, const VariableSpec& spec) const {
  return checked(path, spec, spec.initializer(key_of_path(init_key_, path), spec.shape, spec.dtype));
}

Array ScopeFrame::stacked_initial_value(const std::string& path, const VariableSpec& spec, const Stacks& stacks) const {
  std::vector<std::uint32_t> words;
  for (const std::string& slice : slice_paths(path, stacks)) words.push_back(path_word(slice));
  const auto count = static_cast<std::int64_t>(words.size());
  const Array keys = random::fold_in(init_key_, array(words, Shape{count}));
  const auto one = [&](const Array& key) { return checked(path, spec, spec.initializer(key, spec.shape, spec.dtype)); };
  return reshape(map(one, keys), stacked(spec, stacks).shape.to_vector());
}

Array ScopeFrame::layer_value(const std::string& path, const VariableSpec& spec, bool trainable,
                              const Stacks& stacks) const {
  Stacks all{stack_};
  all.insert(all.end(), stacks.begin(), stacks.end());
  const VariableSpec own = stacked(spec, stacks);
  if (!slices_) {
    const DType dtype = parent_->declare(path, spec, trainable, all).old_value.dtype();
    return level_.run([&] { return zeros(own.shape, dtype); });
  }
  const std::string slice = "variables/" + path;
  if (slices_->contains(slice) && slices_->at(slice).is_leaf()) return slices_->at(slice).array();
  throw StateError("[scan_layers] variable '" + path +
                   "' is declared in one trace of the body and not in another; a body declares the same variables "
                   "whenever it is called");
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

Declared& ScopeFrame::declare(const std::string& path, const VariableSpec& one, bool trainable, const Stacks& stacks) {
  const VariableSpec spec = stacked(one, stacks);
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
  Declared variable{.spec = spec, .trainable = trainable, .old_value = {}};
  if (parent_ != nullptr) {
    variable.old_value = layer_value(path, one, trainable, stacks);
  } else if (mode_ == Mode::call) {
    variable.old_value = existing_value(path, spec, trainable);
    if (trainable && spec.aggregation != Aggregation::none) {
      DeclarationLog::note(DeclaredAggregation{path, spec.aggregation, variable.old_value});
    }
    if (spec.layout) DeclarationLog::note(DeclaredLayout{path, *spec.layout, variable.old_value});
  } else {
    variable.old_value = level_.run([&] {
      const std::size_t slash = path.rfind('/');
      const NamedScope named = NamedScope::at(slash == std::string::npos ? std::string() : path.substr(0, slash));
      return stacks.empty() ? initial_value(path, one) : stacked_initial_value(path, one, stacks);
    });
  }
  if (!trainable) variable.value.emplace(level_, variable.old_value, cell_options(path, spec));
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

Tree ScopeFrame::made(bool trainable) const {
  std::vector<std::pair<std::string, Tree>> made;
  for (const auto& [path, variable] : declared_) {
    if (variable.trainable == trainable) made.emplace_back(path, variable.old_value);
  }
  return tree_of_paths(std::move(made));
}

Tree ScopeFrame::next_state() const {
  std::map<std::string, Array> assigned;
  for (const auto& [path, variable] : declared_) {
    if (!variable.assigned) continue;
    assigned.emplace(path, combined(path, variable));
    DeclarationLog::note(AssignedState{path, variable.old_value});
  }
  if (assigned.empty()) return non_trainable_;
  Tree next = map_with_path(
      [&](const std::string& path, const Array& leaf) {
        const auto found = assigned.find(path);
        if (found == assigned.end()) return leaf;
        Array value = std::move(found->second);
        assigned.erase(found);
        return value;
      },
      non_trainable_);
  for (const auto& [path, value] : assigned) next = next.with(path, Tree(value));
  return next;
}

Array ScopeFrame::combined(const std::string& path, const Declared& variable) const {
  if (variable.spec.aggregation == Aggregation::sum) return summed(path, variable);
  const Array value = variable.now();
  const AxisSet axes = value.type().varying;
  if (axes.empty()) return value;
  switch (variable.spec.aggregation) {
    case Aggregation::mean:
      return mean_over_replicas(variable, axes);
    case Aggregation::only_first_replica:
      return first_replica(value, axes);
    default:
      throw AggregationError("[assign] the new value of '" + path + "' is " + to_string(value.type()) +
                             ": replicas may differ along " + to_string(axes) +
                             ", but the variable declares aggregation=none; " +
                             declarations_that_combine(value.dtype()) + ", or make the value invariant" +
                             (is_float(value.dtype()) || is_complex(value.dtype()) ? " with psum or pmean"
                              : is_integer(value.dtype())                          ? " with psum"
                                                                                   : ""));
  }
}

Array ScopeFrame::summed(const std::string& path, const Declared& variable) const {
  const Array contribution = variable.contribution->get();
  const AxisSet axes = contribution.type().varying;
  // An invariant contribution is every replica's: psum needs it varying, and then counts each once.
  const AxisSet over = axes.empty() ? batch_axes_ : axes;
  const Array added = over.empty() ? contribution : psum(pvary(contribution, over.without(axes)), over);
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
  const DType dtype = variable.now().dtype();
  const Array value = convert(variable.now(), sum_dtype(dtype));
  if (!rows_.has_value() || rows_.type().varying.empty()) return convert(pmean(value, axes), dtype);
  // Each replica counts by the share of its rows that are real, exactly 1 where nothing pads; where replicas share a value
  // along an axis, by that of all of these.
  Array own = sum(convert(rows_ != 0, value.dtype())) / static_cast<double>(rows_.shape().size());
  const AxisSet shared = own.type().varying.without(axes);
  if (!shared.empty()) own = psum(own, shared);
  const Array count = psum(pvary(own, axes.without(own.type().varying)), axes);
  const Array total = psum(where(own == 0, 0, value * own), axes);
  return where(count == 0, variable.old_value, convert(total / where(count == 0, 1, count), dtype));
}

}  // namespace lockstep::detail
