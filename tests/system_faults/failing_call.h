// Programs of which one call of the system fails.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::tests {

/// Calls of the system that do the same, and the errors with which they may fail.
struct CallKind {
  std::string_view name;
  std::vector<int> numbers;
  std::vector<int> errors;
  bool of_files = false;  ///< Only those whose first argument is a descriptor of a file or a folder count.
};
const std::vector<CallKind>& call_kinds();

/// The n-th call of a kind, from 0 on, that a program makes from its main function on; -1: none fails.
struct FailingCall {
  const CallKind* kind;
  long nth = -1;
  int error = 0;
  bool lasts = false;  ///< All that come after it fail, too.
};

/// What is known of a program's calls of a kind at its end.
struct CountedCalls {
  long calls = 0;
  std::string failed;  ///< The one that failed, and what it was of: "openat run/metrics.csv".
};

/// Why the calls of a program cannot be watched here, or an empty text.
const std::string& no_watched_calls();

/// What stands before a command of the shell that starts `program`, so that the call fails. It is another process that
/// counts the calls, and it writes `record`.
std::string with_failing_call(const FailingCall& call, const std::filesystem::path& program,
                              const std::filesystem::path& record);

/// Becomes the program that this process's command line names after "--", of which the call fails: the test case
/// "failing_call", which such a command starts, does no more.
void become_failing_program();

/// What is in a record, which may take a moment; none where it does not come.
std::optional<CountedCalls> counted_calls(const std::filesystem::path& record);

}  // namespace lockstep::tests
