#pragma once

#include <string>

#include "backends/shared_memory/file.h"

namespace lockstep::backend::shared_memory {

/// The processes of a job, where a launcher started all of them on this host.
struct Job {
  std::string name;    ///< No other job's.
  std::string secret;  ///< That the launcher gave each process and nobody else; empty where it gives none.
  int rank = 0;
  int size = 1;
};

/// Gives all processes of a job the file that process 0 makes: it waits for the others at a socket whose name is the
/// job's and lies in no folder, so that nothing is left behind whenever a process is killed. Each end refuses processes of
/// other users, by what the system says of them, and those without the job's secret, and goes on waiting. A file that is
/// not open where process 0 has none to give. Throws CommunicatorError naming those that do not come within so many seconds.
File share_file(const Job& job, File (*make)(const Job& job), double seconds);

}  // namespace lockstep::backend::shared_memory
