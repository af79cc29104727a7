#include <mutex>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/random.h>
#include <lockstep/transforms.h>

#include "engine/api/key_tracking.h"
#include "engine/api/non_finite.h"
#include "engine/api/profile_calls.h"
#include "engine/api/runtime.h"
#include "engine/api/tree_paths.h"
#include "engine/api/tree_trace.h"
#include "engine/api/type_hash.h"
#include "engine/trace/array_state.h"
#include "engine/trace/trace.h"

namespace lockstep::detail {

namespace {

/// One traced version of a jitted function.
struct Entry {
  std::vector<Tree> arguments;  ///< Structure alone.
  std::vector<ArrayType> types;
  ir::FunctionPtr function;
  std::shared_ptr<const compile::Executable> executable;
  std::vector<Array> captured;
  Tree result;

  bool matches(const std::vector<Tree>& trees, const std::vector<Array>& leaves) const {
    if (arguments.size() != trees.size() || types.size() != leaves.size()) return false;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (!(types[i] == leaves[i].type())) return false;
    }
    for (std::size_t i = 0; i < trees.size(); ++i) {
      if (!arguments[i].same_structure(trees[i])) return false;
    }
    return true;
  }
};

std::uint64_t key_of(const std::vector<Tree>& trees, const std::vector<Array>& leaves) {
  StableHash hash;
  for (const Tree& tree : trees) hash.add(tree.structure_hash());
  for (const Array& leaf : leaves) api::add_type(hash, leaf.type());
  return hash.value();
}

/// Why `now` found no entry although `before` is one.
std::string change(const Entry& before, const api::FlatArguments& now, const std::vector<Tree>& trees) {
  if (before.arguments.size() != trees.size()) {
    return fmt::format("{} arguments became {}", before.arguments.size(), trees.size());
  }
  for (std::size_t i = 0; i < trees.size(); ++i) {
    if (const auto difference = first_difference(before.arguments[i], trees[i])) {
      return fmt::format("{}: {} became {}", api::argument_path(i, difference->path), difference->a, difference->b);
    }
  }
  std::string text;
  int more = 0;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const ArrayType& type = now.leaves()[i].type();
    if (type == before.types[i]) continue;
    if (!text.empty()) {
      ++more;
      continue;
    }
    text = fmt::format("{}: {} became {}", now.path(i), to_string(before.types[i]), to_string(type));
  }
  return more == 0 ? text : fmt::format("{}, and {} more", text, more);
}

/// Whether the caller gave this array away and nobody else holds its memory.
bool sole_owner(const Array& array) { return array.state().use_count() == 1 && array.state()->buffer.use_count() == 1; }

}  // namespace

struct JitCache::Impl {
  DebugOptions debug;
  std::mutex mutex;
  std::unordered_multimap<std::uint64_t, std::shared_ptr<const Entry>> entries;
  std::shared_ptr<const Entry> latest;
  std::vector<std::string> reasons;

  std::shared_ptr<const Entry> find(std::uint64_t key, const std::vector<Tree>& trees,
                                    const std::vector<Array>& leaves) const {
    auto [begin, end] = entries.equal_range(key);
    for (auto it = begin; it != end; ++it) {
      if (it->second->matches(trees, leaves)) return it->second;
    }
    return nullptr;
  }

  std::shared_ptr<const Entry> trace(std::uint64_t key, const TreeFunction& function, const std::vector<Tree>& trees) {
    const api::FlatArguments arguments(trees);
    auto entry = std::make_shared<Entry>();
    entry->types = arguments.types();
    reasons.push_back(latest == nullptr ? "first call" : change(*latest, arguments, trees));
    api::TracedTree traced = api::trace_tree(function, arguments, entry->types);
    for (const Tree& tree : trees) entry->arguments.push_back(api::skeleton(tree));
    entry->function = traced.function;
    if (random::key_reuse_checks()) api::check_keys(*traced.function);
    entry->executable = api::compiled(traced.function);
    entry->captured = std::move(traced.captured);
    entry->result = std::move(traced.result);
    entries.emplace(key, entry);
    latest = entry;
    return entry;
  }
};

JitCache::JitCache(const DebugOptions& debug) : impl_(std::make_shared<Impl>()) { impl_->debug = debug; }

Tree JitCache::call(const TreeFunction& function, std::vector<Tree> arguments) {
  if (trace::is_open()) return function(arguments);
  std::vector<Array> leaves;
  for (const Tree& tree : arguments) append_leaves(tree, leaves);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    api::check_concrete(leaves[i], [&] { return api::FlatArguments(arguments).path(i); });
  }
  const std::uint64_t key = key_of(arguments, leaves);
  std::shared_ptr<const Entry> entry;
  {
    const std::lock_guard lock(impl_->mutex);
    entry = impl_->find(key, arguments, leaves);
    if (entry == nullptr) entry = impl_->trace(key, function, arguments);
  }
  arguments.clear();
  std::vector<bool> donated;
  donated.reserve(leaves.size() + entry->captured.size());
  for (const Array& leaf : leaves) donated.push_back(sole_owner(leaf));
  donated.resize(leaves.size() + entry->captured.size(), false);
  leaves.insert(leaves.end(), entry->captured.begin(), entry->captured.end());
  // Kept arguments are shared and therefore not overwritten.
  const std::vector<Array> kept = impl_->debug.nans || impl_->debug.infs ? leaves : std::vector<Array>();
  std::optional<api::TrackedCall> tracked;
  if (random::key_reuse_checks()) tracked.emplace(*entry->function, leaves);
  Profile* const profile = impl_->debug.profile.get();
  std::vector<Array> results = profile == nullptr
                                   ? api::run(*entry->executable, std::move(leaves), donated)
                                   : api::run_profiled(*profile, entry->executable, std::move(leaves), donated);
  if (tracked) tracked->mark(results);
  if (!kept.empty()) api::check_finite(entry->function, kept, results, impl_->debug);
  return entry->result.unflatten(std::move(results));
}

std::size_t JitCache::traces() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->reasons.size();
}

std::vector<std::string> JitCache::retrace_reasons() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->reasons;
}

}  // namespace lockstep::detail
