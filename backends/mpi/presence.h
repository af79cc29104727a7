// Which processes of a job have come to the start of MPI, which itself cannot tell.
#pragma once

#include <string>
#include <vector>

namespace lockstep::backend::mpi {

/// This process shows on its host that it is there, by a socket whose name lies in no folder, and sees which others do. Where
/// the launcher does not say what the job is called, nobody is seen.
class Presence {
 public:
  Presence();
  ~Presence();
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;

  /// Sees who has come by now. Never waits.
  void look();
  /// "process 1 of 2", "processes 1, 3 of 4"; of several hosts how many are missing on this one, as far as is known.
  std::string missing() const;

 private:
  std::string name_of(int rank) const;

  std::string job_;  ///< Empty: not known.
  int rank_ = -1;
  int size_ = 0;
  int here_ = 0;  ///< Of this host.
  int socket_ = -1;
  std::vector<bool> has_come_;
};

}  // namespace lockstep::backend::mpi
