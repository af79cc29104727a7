#include "engine/cli/accepted_changes.h"

#include <optional>
#include <utility>

#include "engine/files/json_reader.h"
#include "engine/files/json_value.h"

namespace lockstep::cli {

std::filesystem::path changes_file(const std::filesystem::path& run) { return run / "accepted_changes.json"; }

std::vector<AcceptedChange> accepted_changes(const std::filesystem::path& run) {
  std::vector<AcceptedChange> changes;
  const std::optional<json::Value> read = json::parse_file(changes_file(run));
  if (!read || read->items() == nullptr) return changes;
  for (const json::Value& item : *read->items()) {
    const json::Value* step = item.find("step");
    const auto text = [&](const char* name) {
      const json::Value* found = item.find(name);
      return found == nullptr || found->text() == nullptr ? std::string() : *found->text();
    };
    changes.push_back({step == nullptr ? 0 : step->integer().value_or(0), text("entry"), text("was"), text("now")});
  }
  return changes;
}

std::string text_of(const std::vector<AcceptedChange>& changes) {
  json::Value all = json::Value::list();
  for (const AcceptedChange& change : changes) {
    json::Value item;
    item["step"] = change.step;
    item["entry"] = change.entry;
    item["was"] = change.was;
    item["now"] = change.now;
    all.push_back(std::move(item));
  }
  return all.to_string(2) + '\n';
}

std::vector<AcceptedChange> changes_from(const std::filesystem::path& run, std::int64_t step, const Manifest& saved,
                                         const Manifest& now) {
  std::vector<AcceptedChange> changes;
  for (AcceptedChange& change : accepted_changes(run)) {
    if (change.step < step) changes.push_back(std::move(change));
  }
  for (DifferentEntry& entry : different_entries(saved, now)) {
    changes.push_back({step, std::move(entry.name), std::move(entry.left), std::move(entry.right)});
  }
  return changes;
}

}  // namespace lockstep::cli
