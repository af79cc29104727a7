#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <lockstep/profile.h>

// A profile for people to read.
namespace lockstep {
namespace {

constexpr std::size_t most_rows = 30;

/// A rate in units of 1e9, and its share of a peak.
std::string rate(double amount, double seconds, double peak) {
  if (amount == 0 || seconds <= 0) return fmt::format("{:>9} {:>6}", "-", "-");
  return fmt::format("{:>9.2f} {:>5.1f}%", amount / seconds * 1e-9, 100 * amount / seconds / peak);
}

std::string print_rows(std::string_view title, const std::vector<ProfileRow>& rows, const Profile& profile,
                       const Peak& peak) {
  const auto calls = static_cast<double>(profile.recorded());
  const double all = profile.seconds() * profile.devices();
  std::size_t width = title.size();
  for (const ProfileRow& row : rows) width = std::max(width, row.name.size());
  std::string text = fmt::format("\n{:<{}} {:>9} {:>10} {:>6} {:>9} {:>6} {:>9} {:>6}\n", title, width, "runs/call",
                                 "ms/call", "share", "GFLOP/s", "peak", "GB/s", "peak");
  for (std::size_t i = 0; i < std::min(rows.size(), most_rows); ++i) {
    const ProfileRow& row = rows[i];
    text += fmt::format("{:<{}} {:>9.0f} {:>10.3f} {:>5.1f}% {} {}\n", row.name, width,
                        static_cast<double>(row.runs) / calls, row.seconds / calls * 1e3, 100 * row.seconds / all,
                        rate(row.flops, row.seconds, peak.flops_per_second),
                        rate(row.bytes, row.seconds, peak.bytes_per_second));
  }
  if (rows.size() > most_rows) text += fmt::format("and {} more\n", rows.size() - most_rows);
  return text;
}

}  // namespace

std::string Profile::table(const Peak& peak) const {
  if (recorded() == 0) return "no call was recorded; the first one is left out\n";
  return fmt::format("{} calls on {} devices: {:.3f} ms a call; the peak of a device is {:.1f} GFLOP/s, {:.1f} GB/s\n",
                     recorded(), devices(), seconds() / static_cast<double>(recorded()) * 1e3,
                     peak.flops_per_second * 1e-9, peak.bytes_per_second * 1e-9) +
         print_rows("op", by_op(), *this, peak) + print_rows("layer", by_layer(), *this, peak);
}

}  // namespace lockstep
