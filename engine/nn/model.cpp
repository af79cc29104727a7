#include <algorithm>
#include <utility>

#include <lockstep/error.h>
#include <lockstep/function.h>
#include <lockstep/losses.h>
#include <lockstep/model.h>
#include <lockstep/moved_from.h>
#include <lockstep/ops.h>
#include <lockstep/transforms.h>

#include "engine/nn/scope_frame.h"

namespace lockstep::detail {
namespace {

/// Inputs of the example's types, staged: only their types matter to init.
Tree placeholders(const Tree& example) {
  return map([](const Array& x) { return zeros(x.shape(), x.dtype()); }, example);
}

std::vector<Variable> listed(const ScopeFrame& frame) {
  std::vector<Variable> variables;
  for (const auto& [path, v] : frame.declared()) {
    variables.push_back({path, {v.spec.dtype, v.spec.shape, {}}, v.trainable, v.spec.aggregation});
  }
  return variables;
}

void run(const ModelFunction& function, const std::shared_ptr<ScopeFrame>& frame, const Tree& x, Tree* y) {
  expect_held(function, "model");
  Scope scope(frame, "");
  Tree result = function(scope, x);
  frame->close();
  if (y != nullptr) *y = std::move(result);
}

[[noreturn]] void throw_missing(const ModelFunction& function, const MissingLeaf& missing, const Tree& given,
                                const Tree& x) {
  std::size_t expected = 0;
  for (const Variable& v : variables(function, x)) expected += v.trainable == missing.trainable() ? 1 : 0;
  const std::string which = missing.trainable() ? "trainable" : "non_trainable";
  if (given.size() == 0 && expected > 0) {
    throw StateError("[stateless_call] the " + which + " tree is empty, the model has " + std::to_string(expected) +
                     " " + which + " leaves, first '" + missing.path() +
                     "'; the model must be built: call init(key, example) and pass what it returns");
  }
  throw StateError("[stateless_call] " + which + " leaf '" + missing.path() +
                   "' is missing: " + std::to_string(given.size()) + " leaves were given, " + std::to_string(expected) +
                   " expected; variables come to be in init only, so pass the trees init returned for this model "
                   "function, and declare every variable on the path init runs");
}

/// Leaves that neither this call nor init knows.
void check_surplus(const ModelFunction& function, const ScopeFrame& frame, const Tree& tree, bool trainable,
                   const Tree& x) {
  std::vector<Variable> known;
  for (const std::string& path : tree.paths()) {
    const auto found = frame.declared().find(path);
    if (found != frame.declared().end() && found->second.trainable == trainable) continue;
    if (known.empty()) known = variables(function, x);
    const bool expected = std::any_of(known.begin(), known.end(),
                                      [&](const Variable& v) { return v.path == path && v.trainable == trainable; });
    if (expected) continue;
    throw StateError("[stateless_call] surplus " + std::string(trainable ? "trainable" : "non_trainable") + " leaf '" +
                     path + "': the model declares no such variable; pass the trees init returned for this model");
  }
}

/// Rows that do not count, with a real row's values: in a map a shard may have none, so there who makes the batch does it.
Tree inputs_of_rows(const Tree& x, const Array& rows) {
  if (!rows.has_value() || rows.ndim() != 1 || !rows.type().varying.empty()) return x;
  for (const Array& leaf : x.leaves()) {
    if (leaf.ndim() > 0 && leaf.dim(0) != rows.dim(0)) return x;
  }
  return fill_masked_rows(x, rows);
}

}  // namespace

Array example_of(const ArrayType& type) { return zeros(type.shape, type.dtype); }

std::pair<Tree, Tree> init(const ModelFunction& function, const Array& key, const Tree& example) {
  JitCache cache;
  const Tree trees = cache.call(
      [&](const std::vector<Tree>& arguments) {
        const auto frame = ScopeFrame::for_init(arguments[0].array());
        run(function, frame, placeholders(example), nullptr);
        return Tree::list({frame->made(true), frame->made(false)});
      },
      {Tree(key)});
  return {trees.items()[0], trees.items()[1]};
}

std::vector<Variable> variables(const ModelFunction& function, const Tree& example) {
  std::vector<Variable> found;
  const auto list = [&](const std::vector<Tree>& arguments) {
    const auto frame = ScopeFrame::for_init(arguments[0].array());
    run(function, frame, placeholders(example), nullptr);
    found = listed(*frame);
    return Tree();
  };
  trace(list, {Tree(random::key(0))});
  return found;
}

std::pair<Tree, Tree> stateless_call(const ModelFunction& function, const Tree& trainable, const Tree& non_trainable,
                                     const Tree& x, bool training, const CallOptions& options) {
  const auto frame = ScopeFrame::for_call(trainable, non_trainable, training, options.rows, x);
  Tree y;
  try {
    run(function, frame, inputs_of_rows(x, options.rows), &y);
  } catch (const MissingLeaf& missing) {
    throw_missing(function, missing, missing.trainable() ? trainable : non_trainable, x);
  }
  check_surplus(function, *frame, trainable, true, x);
  check_surplus(function, *frame, non_trainable, false, x);
  return {std::move(y), frame->next_state()};
}

std::shared_ptr<const ModelFunction> shared_function(ModelFunction function) {
  return std::make_shared<const ModelFunction>(std::move(function));
}

const ModelFunction* held_function(const std::shared_ptr<const ModelFunction>& function) {
  return &held(function, "model");
}

}  // namespace lockstep::detail

template class lockstep::Model<lockstep::Array, lockstep::Array>;
