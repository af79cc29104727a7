// State that changes in a call: assignments, contributions, random streams, and what stacked layers make of theirs.
#include <algorithm>
#include <utility>
#include <vector>

#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/ops.h>
#include <lockstep/tree_of_paths.h>

#include "engine/nn/scope_frame.h"

namespace lockstep::detail {
namespace {

std::string rng_path(const std::string& scope_path) { return scope_path.empty() ? "rng" : scope_path + "/rng"; }

/// Where a variable lies.
std::string scope_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

using Entries = std::vector<std::pair<std::string, Tree>>;

void add(Entries& entries, const std::string& kind, const std::string& path, const Array& value) {
  entries.emplace_back(kind + "/" + path, value);
}

/// Paths of the leaves below `kind`.
std::vector<std::string> paths_below(const Tree& tree, const std::string& kind) {
  return tree.contains(kind) ? tree.at(kind).paths() : std::vector<std::string>();
}

/// The largest over the examples: a count that went on in some of them.
Array largest(const Array&, const Array& of_examples, const MappedAxis&) { return max(of_examples, Axes{0}); }

}  // namespace

RealMean mean_of_real_rows(const Array& x, const Array& weights) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.ndim()), 1);
  shape[0] = x.dim(0);
  const Array is_real = reshape(weights != 0, shape);
  const Array wide = convert(x, promote(x.dtype(), float32));
  const Array count = sum(convert(is_real, wide.dtype()));
  return {sum(where(is_real, wide, 0), Axes{0}) / where(count == 0, 1, count), count};
}

std::string declarations_that_combine(DType dtype) {
  if (is_float(dtype) || is_complex(dtype)) return "declare mean, sum (with accumulate) or only_first_replica";
  if (is_integer(dtype)) return "declare sum (with accumulate) or only_first_replica";
  return "declare only_first_replica";
}

CellOptions ScopeFrame::cell_options(const std::string& path, const VariableSpec& spec) const {
  CellOptions options{.name = "the variable '" + path + "'"};
  if (spec.dtype == uint32 && path == rng_path(scope_of(path))) {
    options.merge = largest;
    return options;
  }
  switch (spec.aggregation) {
    case Aggregation::mean:
      // The cell is one of this frame's, which lives while a call's vmaps are traced.
      options.merge = [this](const Array& before, const Array& of_examples, const MappedAxis& axis) {
        const bool has_weights = rows_.has_value() && goes_through_rows(axis, nullptr);
        if (!has_weights) return mean(of_examples, Axes{0});
        const RealMean real = mean_of_real_rows(of_examples, rows_);
        return where(real.count == 0, before, convert(real.mean, of_examples.dtype()));
      };
      return options;
    case Aggregation::only_first_replica:
      options.merge = [](const Array&, const Array& of_examples, const MappedAxis&) {
        return squeeze(slice_in_dim(of_examples, 0, 1, 0), {0});
      };
      return options;
    default:
      options.merge = [path](const Array&, const Array& of_examples, const MappedAxis&) -> Array {
        throw AggregationError(
            "[assign] the new value of '" + path +
            "' differs between the examples of a vmap, but the variable declares aggregation=none; give the vmap an "
            "axis_name, so that statistics are taken over all examples (psum, pmean, batch_norm does so), or " +
            declarations_that_combine(of_examples.dtype()));
      };
      return options;
  }
}

void ScopeFrame::assign(const std::string& path, const Array& value) {
  Declared& variable = find_assignable(path, "assign");
  variable.value->set(value);
  variable.assigned = true;
}

void ScopeFrame::accumulate(const std::string& path, const Array& contribution) {
  Declared& variable = find_assignable(path, "accumulate");
  variable.assigned = true;
  const auto sum_of_examples = [](const Array& before, const Array& of_examples, const MappedAxis&) {
    return before + sum(of_examples - before, Axes{0});
  };
  CellOptions options{.name = "the variable '" + path + "'", .merge = sum_of_examples, .per_example = true};
  if (variable.contribution) return variable.contribution->set(variable.contribution->get() + contribution);
  if (level_.is_current()) {
    variable.contribution.emplace(level_, contribution, std::move(options));
    return;
  }
  const Array none = level_.run([&] { return zeros(contribution.shape(), contribution.dtype()); });
  variable.contribution.emplace(level_, none, std::move(options));
  variable.contribution->set(none + contribution);
}

// ---- rows and the examples of a vmap

/// Whether the dimension taken away is that of the rows: it varies as they do and has their extent. A layer's input that
/// has as many rows itself says that it is not, or that nobody can tell; then a mesh must not decide.
bool ScopeFrame::goes_through_rows(const MappedAxis& axis, const Array* x) const {
  if (!axis.rows || axis.size != row_count_) return false;
  const bool is_cut = !batch_axes_.empty();
  if (!is_cut) return rows_.has_value();
  if (std::ranges::none_of(batch_axes_, [&](const auto& a) { return axis.varying.contains(a); })) return false;
  if (x == nullptr || x->ndim() == 0 || x->dim(0) != row_count_) return true;
  if (row_count_ == 1) return false;
  throw MeshError(
      "[scope] a vmap takes away a dimension of " + std::to_string(axis.size) +
      ", as many as there are rows in a shard, and inside it the layer's input is " + to_string(x->type()) +
      ": which of the two are the rows cannot be told, and draws and statistics depend on it. Call the layer "
      "outside of the vmap (layers take any leading dimensions), or cut the batch into another number of "
      "shards");
}

void ScopeFrame::check_no_scan_over_rows(const std::string& path, const Array* x) const {
  if (batch_axes_.empty() || x == nullptr || (x->ndim() > 0 && x->dim(0) == row_count_)) return;
  for (const MappedAxis& axis : scanned_axes()) {
    if (!goes_through_rows(axis, x)) continue;
    throw MeshError(
        "[scope] '" + path +
        "' draws in a scan or map over the rows of a batch that a mesh cuts: its draws are numbered by "
        "iteration, so they would depend on the number of shards. Write vmap, which numbers the rows of the "
        "whole batch, or call the layer on all rows at once");
  }
}

std::vector<MappedAxis> ScopeFrame::mapped_axes() const {
  return parent_ == nullptr ? level_.mapped_axes() : parent_->mapped_axes();
}

std::vector<MappedAxis> ScopeFrame::scanned_axes() const {
  return parent_ == nullptr ? level_.scanned_axes() : parent_->scanned_axes();
}

bool ScopeFrame::maps_rows(const Array* x) const {
  return std::ranges::any_of(mapped_axes(), [&](const MappedAxis& axis) { return goes_through_rows(axis, x); });
}

bool ScopeFrame::is_one_row(const Array& x) const {
  if (maps_rows(&x)) return true;
  if (rows_.has_value() || (x.ndim() > 0 && x.dim(0) == row_count_)) return false;
  return std::ranges::any_of(mapped_axes(),
                             [&](const MappedAxis& axis) { return axis.rows && axis.size == row_count_; });
}

Array ScopeFrame::rows(const Array* x) const {
  if (!rows_.has_value()) return rows_;
  for (const MappedAxis& axis : mapped_axes()) {
    if (goes_through_rows(axis, x)) return squeeze(dynamic_slice_in_dim(rows_, axis.index, 1), {0});
  }
  return rows_;
}

// ---- random streams

/// The number of the next draw; one known here and now is a constant.
Array ScopeFrame::next_number(const std::string& path) {
  Draws& draws = draws_[path];
  if (!draws.number && slices_ && slices_->contains("draws/" + path)) {
    draws.number.emplace(level_, slices_->at("draws/" + path).array(), CellOptions{.merge = largest});
  }
  if (level_.is_current() && !draws.number) return full({}, draws.known++, uint32);
  if (!draws.number) {
    const Array known = level_.run([&] { return full({}, draws.known, uint32); });
    draws.number.emplace(level_, known, CellOptions{.name = "the number of draws of '" + path + "'", .merge = largest});
  }
  const Array number = draws.number->get();
  draws.number->set(number + ones({}, uint32));
  return number;
}

Array ScopeFrame::next_key(const std::string& scope_path, const Array* x) {
  const std::string path = rng_path(scope_path);
  check_no_scan_over_rows(path, x);
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
  if (training_) {
    Array& advanced = draws_[path].advanced;
    if (!advanced.has_value()) {
      advanced = level_.run([&] {
        const Array old = slice_in_dim(leaf.old_value, 2, 3, 0);
        return concatenate({slice_in_dim(leaf.old_value, 0, 2, 0), old + ones({1}, uint32)}, 0);
      });
    }
    if (leaf.value->get().state() != advanced.state()) leaf.value->set(advanced);
    leaf.assigned = true;
  }
  Array drawn = random::fold_in(random::fold_in(key, squeeze(count, {0})), next_number(path));
  bool found_rows = false;
  for (const MappedAxis& axis : mapped_axes()) {
    Array example = axis.index;
    if (!found_rows && goes_through_rows(axis, x)) {
      found_rows = true;
      if (!batch_axes_.empty()) example = block_index(batch_axes_) * static_cast<std::int32_t>(axis.size) + example;
    }
    drawn = random::fold_in(drawn, example);
  }
  return drawn;
}

// ---- stacked layers

Tree ScopeFrame::slices_of(const ScopeFrame& layer) const {
  Entries entries;
  for (const auto& [path, variable] : layer.declared_) {
    // A stream's key and count stay those of the call's beginning: what goes on is the number of draws.
    const Declared& own = declared_.at(path);
    add(entries, "variables", path, layer.draws_.contains(path) ? own.old_value : own.now());
    const auto draws = draws_.find(path);
    if (draws != draws_.end() && draws->second.number) add(entries, "draws", path, draws->second.number->get());
  }
  return tree_of_paths(std::move(entries));
}

Tree ScopeFrame::changes() const {
  Entries entries;
  for (const auto& [path, variable] : declared_) {
    if (!variable.assigned) continue;
    add(entries, "variables", path, variable.contribution ? variable.contribution->get() : variable.now());
  }
  for (const auto& [path, draws] : draws_) {
    add(entries, "draws", path, draws.number ? draws.number->get() : full({}, draws.known, uint32));
  }
  return tree_of_paths(std::move(entries));
}

void ScopeFrame::take_changes(const Tree& changes, const Stack& stack) {
  for (const std::string& path : paths_below(changes, "variables")) {
    const Array& value = changes.at("variables/" + path).array();
    const bool adds = declared_.at(path).spec.aggregation == Aggregation::sum;
    adds ? accumulate(path, value) : assign(path, value);
  }
  for (const std::string& path : paths_below(changes, "draws")) {
    const Array& number = changes.at("draws/" + path).array();
    std::optional<Cell>& made = draws_[path].number;
    if (!made) {
      const Array none = level_.run([&] { return zeros(number.shape(), uint32); });
      made.emplace(level_, none,
                   CellOptions{.name = "the number of draws below '" + stack.path + "'", .merge = largest});
    }
    made->set(number);
  }
}

}  // namespace lockstep::detail
