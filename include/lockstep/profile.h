#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/export.h>

namespace lockstep {

/// Which calls of a function are recorded.
struct ProfileOptions {
  std::int64_t skip = 1;    ///< Calls left out first: they compile and touch new memory.
  std::int64_t calls = 10;  ///< Recorded then; all later ones run as if there were no profile.
};

/// What was spent on one op or in one layer, in all recorded calls and on all devices.
struct ProfileRow {
  std::string name;  ///< An op, or a layer's path; "barrier": devices waited for each other.
  std::int64_t runs = 0;
  double seconds = 0;  ///< Without what ran inside: a loop's row is what its kernels leave over.
  double flops = 0;
  double bytes = 0;
};

/// What one device reaches here: a product of float32 matrices of 1024 rows and columns, and a copy of 64 MiB, the best
/// of several runs each.
struct Peak {
  double flops_per_second = 0;
  double bytes_per_second = 0;  ///< Read and written.
};
LOCKSTEP_API Peak measure_peak();  ///< Measures both now.

/// When which kernel of a compiled function ran: hand one to jit or data_parallel, call the function, read it.
///
///     const auto profile = std::make_shared<ls::Profile>();
///     const auto f = ls::jit(function, {.debug = {.profile = profile}});
///
/// One profile records one function at a time.
class LOCKSTEP_API Profile {
 public:
  explicit Profile(const ProfileOptions& options = {});
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  std::int64_t recorded() const;  ///< Calls.
  bool is_complete() const;       ///< Whether it has all the calls it was to record.
  double seconds() const;         ///< Of the recorded calls, from start to end.
  int devices() const;            ///< At work in them.

  /// The dearest first.
  std::vector<ProfileRow> by_op() const;
  std::vector<ProfileRow> by_layer() const;
  /// Both as text: time, share of the whole, FLOP/s and bytes/s beside what the machine can do.
  std::string table(const Peak& peak) const;
  /// The trace event format that chrome://tracing and Perfetto load: a row for each device, a slice for each kernel
  /// with its op, layer, direction, shard, call, flops and bytes.
  std::string chrome_trace() const;
  /// Writes it. Throws ValueError where that fails.
  void write_chrome_trace(const std::filesystem::path& file) const;

  struct Impl;
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep
