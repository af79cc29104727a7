#include "engine/trainer/saved_run.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>
#include <lockstep/processes.h>

namespace lockstep {
namespace trainer {
namespace {

Tree position_tree(const data::Position& position) {
  return Tree::dict({{"epoch", Tree(array(position.epoch))}, {"row", Tree(array(position.row))}});
}

Tree saved_callbacks(const Tree& state, const detail::Callbacks& callbacks) {
  std::map<std::string, Tree> saved;
  for (const auto& callback : callbacks) {
    if (const std::string name = callback->name(); !name.empty()) saved.emplace(name, callback->saved_state(state));
  }
  return saved.empty() ? Tree() : Tree::dict(std::move(saved));
}

}  // namespace

void check_names(const detail::Callbacks& callbacks) {
  std::set<std::string> names;
  for (const auto& callback : callbacks) {
    const std::string name = callback->name();
    if (name.empty() || names.insert(name).second) continue;
    throw ValueError(fmt::format(
        "[fit] two callbacks are named '{}', under which their states are saved; leave one of them out, or give the "
        "second another name in its options (of your own: another name())",
        name));
  }
}

Tree saved_run(const Tree& state, const data::Position& position, const detail::Callbacks& callbacks) {
  std::map<std::string, Tree> run = {{"state", state}, {"data", position_tree(position)}};
  if (Tree saved = saved_callbacks(state, callbacks); saved.size() > 0) run.emplace("callbacks", std::move(saved));
  return Tree::dict(std::move(run));
}

std::optional<ResumedRun> resumed_run(const Tree& like, const TrainerOptions& options,
                                      const detail::Callbacks& callbacks) {
  checkpoint::Manager& manager = *options.checkpoints;
  manager.wait();
  if (world()->all_gather_text(manager.latest() ? "some" : "").front().empty()) return std::nullopt;
  const std::int64_t step = manager.step_of(checkpoint::Choice::latest);
  check_resumes(manager.manifest(step), options.manifest, options.accept_changes, manager.folder_of(step).string());
  const Tree saved =
      manager.restore(step, Tree::dict({{"state", like}, {"data", position_tree({})}}), {.ignore_surplus = true});
  // What a callback that the run did not have before begins with is the state that it goes on from.
  if (const Tree wanted = saved_callbacks(saved.at("state"), callbacks); wanted.size() > 0) {
    const Tree restored =
        manager.restore(step, Tree::dict({{"callbacks", wanted}}), {.keep_missing = true, .ignore_surplus = true});
    for (const auto& callback : callbacks) {
      if (!callback->name().empty()) callback->restore(restored.at("callbacks").entries().at(callback->name()));
    }
  }
  world()->barrier();  // nobody goes on, and writes, unless all could restore it
  return ResumedRun{
      step,
      saved.at("state"),
      {saved.at("data/epoch").array().item<std::int64_t>(), saved.at("data/row").array().item<std::int64_t>()},
      manager.metrics(step)};
}

bool is_saved(const Tree& state, checkpoint::Manager& manager, std::int64_t step) {
  manager.wait();  // what a save before has thrown is not of this checkpoint
  bool is_same = state.leaves().empty();
  try {
    const Tree saved = manager.restore(step, Tree::dict({{"state", state}}), {.ignore_surplus = true});
    is_same = is_same || fingerprint(saved.at("state")) == fingerprint(state);
  } catch (const CheckpointError&) {  // of other arrays, or damaged
    is_same = false;
  }
  return world()->all_gather_text(is_same ? "same" : "").front() == "same";
}

}  // namespace trainer

namespace {

std::string shown(const Named<std::string>& manifest, const std::string& key) {
  const auto found = manifest.find(key);
  return found == manifest.end() ? "absent" : "'" + found->second + "'";
}

}  // namespace

void check_resumes(const Named<std::string>& saved, const Named<std::string>& now,
                   const std::vector<std::string>& accepted, const std::string& where, const std::string& how) {
  Named<std::string>::Map keys = saved;
  keys.insert(now.begin(), now.end());
  for (const std::string& one : accepted) {
    if (one == "*" || keys.contains(one)) continue;
    std::vector<std::string> names;
    for (const auto& [key, unused] : keys) names.push_back(key);
    throw ValueError(fmt::format("[resume] {} names '{}', which is no entry of the manifest; its entries are {}", how,
                                 one, fmt::join(names, ", ")));
  }
  const auto is_accepted = [&](const std::string& key) {
    return std::ranges::any_of(accepted, [&](const std::string& one) { return one == key || one == "*"; });
  };
  for (const auto& [key, unused] : keys) {
    if (shown(saved, key) == shown(now, key) || is_accepted(key)) continue;
    throw CheckpointError(fmt::format(
        "[resume] {}: '{}' was {} when the run was saved and is {} now; the run's bits depend on it, so go on under "
        "the "
        "saved one or start a new run. {} '{}' goes on all the same, with bits that no run without interruption has",
        where, key, shown(saved, key), shown(now, key), how, key));
  }
}

}  // namespace lockstep
