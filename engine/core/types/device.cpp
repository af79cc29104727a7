#include <algorithm>
#include <charconv>
#include <optional>

#include <lockstep/error.h>
#include <lockstep/types.h>

#include "engine/core/check_device.h"
#include "engine/core/quoting.h"

namespace lockstep {

namespace {

constexpr int most_devices = 65536;

[[noreturn]] void reject(std::string_view text, const std::string& why) {
  throw MeshError("devices(" + quoted(text) + "): " + why + "; write for example \"cpu:0-3\" or \"cpu:0,2\"");
}

std::optional<int> read_index(std::string_view text) {
  int index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size() || index < 0 || index >= most_devices) return {};
  return index;
}

}  // namespace

void check_device(std::string_view who, const Device& device) {
  if (device.kind == DeviceKind::cpu && device.index >= 0) return;
  throw MeshError(std::string(who) + ": this build has no backend for " + to_string(device) +
                  "; expected devices of the CPU, by number from 0 on; write for example \"cpu:0-3\"");
}

std::string to_string(const Device& device) {
  return (device.kind == DeviceKind::cpu ? "cpu:" : "cuda:") + std::to_string(device.index);
}

std::vector<Device> devices(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view kind_name = text.substr(0, colon);
  if (kind_name != "cpu" && kind_name != "cuda") reject(text, "expected cpu or cuda, got " + quoted(kind_name));
  if (colon == std::string_view::npos) reject(text, "expected ':' and device numbers");
  const DeviceKind kind = kind_name == "cpu" ? DeviceKind::cpu : DeviceKind::cuda;
  std::vector<Device> result;
  std::string_view rest = text.substr(colon + 1);
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t dash = part.find('-');
    const std::optional<int> first = read_index(part.substr(0, dash));
    const std::optional<int> last = dash == std::string_view::npos ? first : read_index(part.substr(dash + 1));
    if (!first || !last || *last < *first) {
      reject(text, "expected a device number or a range of them, got " + quoted(part));
    }
    for (int index = *first; index <= *last; ++index) {
      const Device device{kind, index};
      check_device("devices(" + quoted(text) + ")", device);
      if (std::find(result.begin(), result.end(), device) != result.end()) {
        reject(text, to_string(device) + " is named twice");
      }
      result.push_back(device);
    }
    more = comma != std::string_view::npos;
    if (more) rest = rest.substr(comma + 1);
  }
  return result;
}

}  // namespace lockstep
