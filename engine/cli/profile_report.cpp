#include "engine/cli/profile_report.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace lockstep::cli {
namespace {

constexpr std::size_t most_rows = 30;

/// A rate in units of 1e9, and its share of a peak.
std::string rate(double amount, double seconds, double peak) {
  if (amount == 0 || seconds <= 0) return fmt::format("{:>9} {:>6}", "-", "-");
  return fmt::format("{:>9.2f} {:>5.1f}%", amount / seconds * 1e-9, 100 * amount / seconds / peak);
}

void print_rows(std::string_view title, const std::vector<ProfileRow>& rows, const Profile& profile, const Peak& peak) {
  const auto steps = static_cast<double>(profile.recorded());
  const double all = profile.seconds() * profile.devices();
  std::size_t width = title.size();
  for (const ProfileRow& row : rows) width = std::max(width, row.name.size());
  fmt::print("\n{:<{}} {:>9} {:>10} {:>6} {:>9} {:>6} {:>9} {:>6}\n", title, width, "runs/step", "ms/step", "share",
             "GFLOP/s", "peak", "GB/s", "peak");
  for (std::size_t i = 0; i < std::min(rows.size(), most_rows); ++i) {
    const ProfileRow& row = rows[i];
    fmt::print("{:<{}} {:>9.0f} {:>10.3f} {:>5.1f}% {} {}\n", row.name, width, static_cast<double>(row.runs) / steps,
               row.seconds / steps * 1e3, 100 * row.seconds / all, rate(row.flops, row.seconds, peak.flops_per_second),
               rate(row.bytes, row.seconds, peak.bytes_per_second));
  }
  if (rows.size() > most_rows) fmt::print("and {} more\n", rows.size() - most_rows);
}

}  // namespace

void print_profile(const Profile& profile, const Peak& peak) {
  if (profile.recorded() == 0) {
    fmt::print("profile: no step was recorded, for the first one is left out; give --steps 2 or more\n");
    return;
  }
  fmt::print(
      "\nprofile of {} steps on {} devices: {:.3f} ms a step; the peak of a device is {:.1f} GFLOP/s, {:.1f} GB/s\n",
      profile.recorded(), profile.devices(), profile.seconds() / static_cast<double>(profile.recorded()) * 1e3,
      peak.flops_per_second * 1e-9, peak.bytes_per_second * 1e-9);
  print_rows("op", profile.by_op(), profile, peak);
  print_rows("layer", profile.by_layer(), profile, peak);
}

}  // namespace lockstep::cli
