#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/lockstep.h>

#include "tests/support/replicas.h"
#include "tests/support/temporary_folder.h"

// What Lockstep promises of programs over replicas, as cases that run alike on threads and in processes under MPI.
namespace lockstep::tests {

/// What holds, and a function that checks it on so many replicas and returns all that it computed: the bits of that may
/// depend on the shards alone.
struct AcceptanceCase {
  std::string what;
  std::function<Tree(const Replicas&)> run;
  std::vector<std::int64_t> shards = {1, 2, 4, 8};
  bool ends_processes = false;  ///< Several processes can communicate no more behind it: each run has its own.
};

/// Where launched processes leave what they have computed.
inline constexpr const char* results_folder = "LOCKSTEP_TEST_RESULTS";

/// A folder that all processes of a run share, new for each name.
class SharedFolder {
 public:
  explicit SharedFolder(const std::string& name) {
    const char* shared = std::getenv(results_folder);
    if (shared == nullptr) own_.emplace();
    path_ = shared == nullptr ? own_->path() : std::filesystem::path(shared) / name;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::optional<TemporaryFolder> own_;
  std::filesystem::path path_;
};

std::vector<AcceptanceCase> declaration_cases();
std::vector<AcceptanceCase> gradient_cases();
std::vector<AcceptanceCase> state_cases();
std::vector<AcceptanceCase> collective_cases();
std::vector<AcceptanceCase> batch_cases();
std::vector<AcceptanceCase> single_reduction_cases();
std::vector<AcceptanceCase> layer_cases();
std::vector<AcceptanceCase> process_cases();
std::vector<AcceptanceCase> metric_cases();
std::vector<AcceptanceCase> optimizer_cases();
std::vector<AcceptanceCase> layout_cases();
std::vector<AcceptanceCase> run_cases();

/// Those of all topics.
inline std::vector<AcceptanceCase> all_cases() {
  std::vector<AcceptanceCase> all;
  for (const auto& topic : {declaration_cases(), gradient_cases(), state_cases(), collective_cases(), batch_cases(),
                            single_reduction_cases(), layer_cases(), process_cases(), metric_cases(), optimizer_cases(),
                            layout_cases(), run_cases()}) {
    all.insert(all.end(), topic.begin(), topic.end());
  }
  return all;
}

}  // namespace lockstep::tests
