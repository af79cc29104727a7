#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/moved_from.h>
#include <lockstep/random.h>
#include <lockstep/transforms.h>

#include "engine/api/inspection/non_finite.h"
#include "engine/api/inspection/profile_calls.h"
#include "engine/api/numpy/weak_types.h"
#include "engine/api/random/key_tracking.h"
#include "engine/api/transforms/runtime.h"
#include "engine/api/trees/tree_node.h"
#include "engine/api/trees/tree_paths.h"
#include "engine/api/trees/tree_trace.h"
#include "engine/api/trees/type_hash.h"
#include "engine/core/idle_slots.h"
#include "engine/core/process_end.h"
#include "engine/core/stack_room.h"
#include "engine/trace/array_state.h"
#include "engine/trace/trace.h"

namespace lockstep::detail {

/// One traced version of a jitted function.
struct JitEntry {
  std::vector<Tree> arguments;  ///< Structure alone.
  std::vector<ArrayType> types;
  std::vector<WeakType> weak;
  api::Cuts cuts;  ///< One a leaf where one lies cut.
  ir::FunctionPtr function;
  std::shared_ptr<const executable::Executable> executable;
  std::vector<Array> captured;
  Tree result;
  std::vector<WeakType> weak_results;
  std::vector<std::pair<std::size_t, std::shared_ptr<IntegerUses>>> integers;  ///< Leaves that are weak ones.
  std::vector<TouchedCell> cells;  ///< Where there are any, the entry serves the call alone that traced it.
};

namespace {

/// Compares arguments with those of an entry, and lists their leaves on the way.
class Matching {
 public:
  Matching(const JitEntry& entry, std::vector<api::CallArgument>& leaves)
      : types_(entry.types), weak_(entry.weak), cuts_(entry.cuts), leaves_(leaves) {}

  bool matches(const std::vector<Tree>& expected, std::span<Tree> given) {
    leaves_.clear();
    if (expected.size() != given.size()) return false;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (!visit(expected[i], given[i], true)) return false;
    }
    return true;
  }

 private:
  /// `owned`: whether nobody but the call holds what is above.
  bool visit(const Tree& expected, Tree& given, bool owned) {
    if (expected.kind() != given.kind()) return false;
    if (given.is_leaf()) return visit_leaf(TreeAccess::leaf(given), owned);
    if (given.kind() == Tree::Kind::none) return true;
    if (given.kind() == Tree::Kind::fixed) return is_same(expected.fixed(), given.fixed());
    if (given.kind() == Tree::Kind::dict && TreeAccess::keys(expected) != TreeAccess::keys(given) &&
        *TreeAccess::keys(expected) != *TreeAccess::keys(given)) {
      return false;
    }
    const std::span<const Tree> wanted = TreeAccess::items(expected);
    const std::span<Tree> items = TreeAccess::items(given);
    if (wanted.size() != items.size()) return false;
    owned = owned && !items.empty() && TreeAccess::node(given)->has_one_owner();
    for (std::size_t i = 0; i < items.size(); ++i) {
      const bool both_leaves = wanted[i].is_leaf() && items[i].is_leaf();
      const bool fits = both_leaves ? visit_leaf(TreeAccess::leaf(items[i]), owned) : visit(wanted[i], items[i], owned);
      if (!fits) return false;
    }
    return true;
  }

  bool visit_leaf(Array& leaf, bool owned) {
    const ArrayState* state = leaf.state().get();
    if (state == nullptr || state->buffer == nullptr) return false;
    if (state->wide != nullptr) {
      leaf = api::exact(leaf);
      state = leaf.state().get();
    }
    if (weak_[leaves_.size()] != state->weak || !is_like(types_[leaves_.size()], state->type)) return false;
    if (cuts_.empty() ? state->cut != nullptr : !same_cut(cuts_[leaves_.size()], state->cut)) return false;
    leaves_.push_back({&leaf, owned ? &leaf : nullptr});
    return true;
  }

  static bool is_same(const StaticValue& a, const StaticValue& b) {
    const double* const x = std::get_if<double>(&a);
    const double* const y = std::get_if<double>(&b);
    return a == b || (x != nullptr && y != nullptr && std::isnan(*x) && std::isnan(*y));
  }

  static bool is_like(const ArrayType& a, const ArrayType& b) {
    if (a.dtype != b.dtype || a.shape.rank() != b.shape.rank()) return false;
    for (int i = 0; i < a.shape.rank(); ++i) {
      if (a.shape[i] != b.shape[i]) return false;
    }
    return true;
  }

  const std::vector<ArrayType>& types_;
  const std::vector<WeakType>& weak_;
  const api::Cuts& cuts_;
  std::vector<api::CallArgument>& leaves_;
};

std::uint64_t key_of(std::span<const Tree> trees, const api::FlatArguments& arguments) {
  StableHash hash;
  for (const Tree& tree : trees) hash.add(tree.structure_hash());
  for (const Array& leaf : arguments.leaves()) {
    api::add_type(hash, leaf.type());
    hash.add(static_cast<std::uint64_t>(api::weak_type(leaf)));
  }
  return hash.value();
}

/// "f32[3]", "a weak i32[]", "a number".
std::string type_text(const ArrayType& type, WeakType weak) {
  if (weak == WeakType::number && type.shape.rank() == 0) return "a number";
  return (weak == WeakType::strong ? "" : "a weak ") + to_string(type);
}

/// "argument 1/w", or the number of a captured array.
std::string path_of(const JitEntry& entry, std::size_t leaf) {
  for (std::size_t i = 0; i < entry.arguments.size(); ++i) {
    const std::vector<std::string> paths = entry.arguments[i].paths();
    if (leaf < paths.size()) return api::argument_path(i, paths[leaf]);
    leaf -= paths.size();
  }
  return fmt::format("captured array {}", leaf);
}

/// Why `now` found no entry although `before` is one.
std::string change(const JitEntry& before, const api::FlatArguments& now, const std::vector<Tree>& trees) {
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
    const WeakType weak = now.weak_types()[i];
    const std::shared_ptr<const CutLayout> cut = before.cuts.empty() ? nullptr : before.cuts[i];
    const bool lies_alike = same_cut(cut, now.leaves()[i].state()->cut);
    if (type == before.types[i] && weak == before.weak[i] && lies_alike) continue;
    if (!text.empty()) {
      ++more;
      continue;
    }
    const auto place = [](const std::shared_ptr<const CutLayout>& lies) {
      return lies == nullptr ? std::string() : " that " + lies_cut(*lies);
    };
    text = fmt::format("{}: {}{} became {}{}", now.path(i), type_text(before.types[i], before.weak[i]), place(cut),
                       type_text(type, weak), place(now.leaves()[i].state()->cut));
  }
  return more == 0 ? text : fmt::format("{}, and {} more", text, more);
}

/// The trees, with the uses of weak integers noted by leaf.
std::vector<Tree> with_uses(std::vector<Tree> trees,
                            std::vector<std::pair<std::size_t, std::shared_ptr<IntegerUses>>>& integers) {
  std::size_t leaf = 0;
  const auto note = [&](const Array& x) {
    const std::size_t place = leaf++;
    if (!api::is_weak(x) || !is_integer(x.dtype())) return x;
    integers.emplace_back(place, std::make_shared<IntegerUses>());
    return api::noted(x, integers.back().second);
  };
  for (Tree& tree : trees) tree = map(note, tree);
  return trees;
}

/// Throws where a leaf holds nothing or is a traced value.
void check_leaves(const api::FlatArguments& flat) {
  for (std::size_t i = 0; i < flat.size(); ++i) {
    api::check_concrete(flat.leaves()[i], [&] { return flat.path(i); });
  }
}

std::vector<Array> arrays_of(const std::vector<api::CallArgument>& arguments) {
  std::vector<Array> arrays;
  for (const api::CallArgument& argument : arguments) arrays.push_back(*argument.array);
  return arrays;
}

/// The structure with what `next()` gives in place of each leaf. Items are made where they stay.
template <class Next>
Tree filled_structure(const Tree& structure, Next& next) {
  if (structure.is_leaf()) return Tree(next());
  if (structure.kind() != Tree::Kind::list && structure.kind() != Tree::Kind::dict) return structure;
  const std::span<const Tree> from = TreeAccess::items(structure);
  const bool is_dict = structure.kind() == Tree::Kind::dict;
  OwnedNode node(TreeNode::make(from.size(), is_dict ? TreeAccess::keys(structure) : nullptr));
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i].is_leaf()) {
      TreeAccess::make_leaf(node->first() + i, next);
    } else {
      std::construct_at(node->first() + i, filled_structure(from[i], next));
    }
    node->set_count(i + 1);
  }
  return TreeAccess::of(std::move(node));
}

}  // namespace

struct JitCache::Impl {
  DebugOptions debug;
  Precision precision = Precision::float32;
  using EntryPtr = std::shared_ptr<const JitEntry>;
  struct Kept {
    EntryPtr entry;
    std::uint64_t used = 0;  ///< When it was last looked for.
  };

  mutable std::mutex mutex;  ///< Of what follows, which a steady call does not touch.
  std::unordered_multimap<std::uint64_t, Kept> entries;
  std::uint64_t clock = 0;
  EntryPtr traced;  ///< The newest.
  std::vector<std::string> reasons;

  IdleSlots<api::CallSpace, 8> spaces;  ///< Each with the entry that fitted last there, which stays until another does.

  /// The entry for the arguments, whose leaves it lists. `own` keeps one that is for this call alone.
  const JitEntry& find(const TreeFunction& function, std::span<Tree> arguments, api::CallSpace& space, EntryPtr& own) {
    const auto* entry = static_cast<const JitEntry*>(space.entry.get());
    if (entry != nullptr && Matching(*entry, space.arguments).matches(entry->arguments, arguments)) return *entry;
    EntryPtr found = find_or_trace(function, {arguments.begin(), arguments.end()}, own);
    entry = found.get();
    if (own == nullptr) {
      space.frame.give_back();  // while its executable is there
      space.entry = std::move(found);
    }
    Matching(*entry, space.arguments).matches(entry->arguments, arguments);
    return *entry;
  }

  EntryPtr find_or_trace(const TreeFunction& function, std::vector<Tree> trees, EntryPtr& own) {
    const api::FlatArguments flat(trees);
    check_leaves(flat);
    const std::uint64_t key = key_of(trees, flat);
    const std::lock_guard lock(mutex);
    std::vector<api::CallArgument> leaves;
    auto [begin, end] = entries.equal_range(key);
    for (auto it = begin; it != end; ++it) {
      Kept& kept = it->second;
      if (!Matching(*kept.entry, leaves).matches(kept.entry->arguments, trees)) continue;
      kept.used = ++clock;
      return kept.entry;
    }
    return trace(key, function, trees, own);
  }

  /// Lets go what was not looked for the longest, where there is too much.
  void keep_limit() {
    static const std::int64_t limit = api::cached_programs();
    if (limit == 0 || std::ssize(entries) <= limit) return;
    entries.erase(std::ranges::min_element(entries, {}, [](const auto& kept) { return kept.second.used; }));
  }

  EntryPtr trace(std::uint64_t key, const TreeFunction& function, const std::vector<Tree>& trees, EntryPtr& own) {
    auto entry = std::make_shared<JitEntry>();
    const api::FlatArguments arguments(with_uses(trees, entry->integers));
    entry->types = arguments.types();
    entry->weak = arguments.weak_types();
    reasons.push_back(traced == nullptr ? "first call" : change(*traced, arguments, trees));
    api::TracedTree result = api::trace_tree(function, arguments, entry->types);
    for (const Tree& tree : trees) entry->arguments.push_back(api::skeleton(tree));
    entry->cuts = api::cuts_of(arguments.leaves());
    entry->function =
        api::on_cut_arguments(result.function, api::cuts_of(api::joined(arguments.leaves(), result.captured)));
    if (random::key_reuse_checks()) api::check_keys(*entry->function);
    entry->executable = api::compiled(entry->function, precision);
    entry->captured = std::move(result.captured);
    entry->result = std::move(result.result);
    entry->weak_results = std::move(result.weak);
    entry->cells = std::move(result.cells);
    if (!entry->cells.empty()) {
      own = std::move(entry);
      return own;
    }
    traced = std::move(entry);
    entries.emplace(key, Kept{traced, ++clock});
    keep_limit();
    return traced;
  }

  /// Runs the entry on `space.arguments`, and whatever else the options ask for.
  Tree run(const JitEntry& entry, api::CallSpace& space) const {
    for (const Array& captured : entry.captured) space.arguments.push_back({&captured, nullptr});
    const bool watches = debug.nans || debug.infs || random::key_reuse_checks();
    if (watches) return run_watched(entry, space);
    execute(entry, space);
    std::size_t i = 0;
    const auto next = [&] {
      const WeakType weak = entry.weak_results[i];
      if (weak == WeakType::strong) return api::result(*entry.executable, space, i++);
      return api::visible(api::result(*entry.executable, space, i++), weak);
    };
    Tree tree = filled_structure(entry.result, next);
    if (!entry.cells.empty()) replace_cells(entry, rest_of(entry, space, i));
    return tree;
  }

  static std::vector<Array> rest_of(const JitEntry& entry, api::CallSpace& space, std::size_t first) {
    std::vector<Array> results;
    for (std::size_t i = first; i < entry.executable->results.size(); ++i) {
      results.push_back(api::result(*entry.executable, space, i));
    }
    return results;
  }

  static void replace_cells(const JitEntry& entry, std::span<const Array> values) {
    lockstep::tracing::replace_all(entry.cells, values);
  }

  void execute(const JitEntry& entry, api::CallSpace& space) const {
    const executable::ArgumentName name = [&entry](std::size_t leaf) { return path_of(entry, leaf); };
    space.name = &name;
    if (debug.profile == nullptr) return api::run(*entry.executable, space);
    api::run_profiled(*debug.profile, entry.executable, space);
  }

  Tree run_watched(const JitEntry& entry, api::CallSpace& space) const {
    const bool finite = debug.nans || debug.infs;
    // Kept arguments are shared and therefore not overwritten.
    const std::vector<Array> kept = finite ? arrays_of(space.arguments) : std::vector<Array>();
    std::optional<api::TrackedCall> tracked;
    if (random::key_reuse_checks()) tracked.emplace(*entry.function, arrays_of(space.arguments));
    execute(entry, space);
    std::vector<Array> results = rest_of(entry, space, 0);
    if (tracked) tracked->mark(results);
    if (finite) api::check_finite(entry.function, kept, results, debug);
    const std::size_t own = results.size() - lockstep::tracing::count_written(entry.cells);
    replace_cells(entry, std::span<const Array>(results).subspan(own));
    results.resize(own);
    return api::unflattened(entry.result, results, entry.weak_results);
  }
};

namespace {

/// Gives the space back when the call is over, however it ends.
template <class Slots>
class SpaceLease {
 public:
  explicit SpaceLease(Slots& slots) : slots_(slots), space_(slots.take()) {
    if (space_ == nullptr) space_ = std::make_unique<api::CallSpace>();
  }
  SpaceLease(const SpaceLease&) = delete;
  SpaceLease& operator=(const SpaceLease&) = delete;
  ~SpaceLease() {
    space_->clear();
    slots_.put(std::move(space_));
  }
  api::CallSpace& space() { return *space_; }

 private:
  Slots& slots_;
  std::unique_ptr<api::CallSpace> space_;
};

}  // namespace

JitCache::JitCache(const DebugOptions& debug, Precision precision) : impl_(std::make_shared<Impl>()) {
  impl_->debug = debug;
  impl_->precision = precision;
}

Tree JitCache::call(const TreeFunction& function, std::span<Tree> arguments) {
  Impl& impl = held(impl_, "jit");
  const InLibrary inside("jit");
  expect_stack_room();
  if (tracing::is_open()) return function(api::visible({arguments.begin(), arguments.end()}));
  SpaceLease lease(impl.spaces);
  api::CallSpace& space = lease.space();
  std::shared_ptr<const JitEntry> own;
  const JitEntry& entry = impl.find(function, arguments, space, own);
  for (const auto& [leaf, uses] : entry.integers) api::check_integer(*uses, *space.arguments[leaf].array);
  if (own == nullptr) return impl.run(entry, space);
  api::CallSpace alone;  // its frame belongs to an executable that may go when this call ends
  alone.arguments = std::move(space.arguments);
  return impl.run(entry, alone);
}

Tree JitCache::call(const TreeFunction& function, std::vector<Tree> arguments) {
  return call(function, std::span<Tree>(arguments));
}

std::size_t JitCache::traces() const {
  const Impl& impl = held(impl_, "jit");
  const std::lock_guard lock(impl.mutex);
  return impl.reasons.size();
}

std::vector<std::string> JitCache::retrace_reasons() const {
  const Impl& impl = held(impl_, "jit");
  const std::lock_guard lock(impl.mutex);
  return impl.reasons;
}

}  // namespace lockstep::detail
