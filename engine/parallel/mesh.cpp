#include <algorithm>
#include <bit>
#include <thread>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/parallel.h>

#include "engine/core/check_device.h"
#include "engine/core/checked_sizes.h"

namespace lockstep {

namespace {

bool is_power_of_two(std::int64_t n) { return n > 0 && std::has_single_bit(static_cast<std::uint64_t>(n)); }

std::string axes_text(const std::vector<MeshAxis>& axes) {
  std::string text;
  for (const MeshAxis& axis : axes) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", axis.name, axis.size);
  }
  return text;
}

void check_axes(const std::vector<MeshAxis>& axes) {
  if (axes.empty()) throw MeshError("mesh: no axes given; write at least one, such as {\"batch\", 8}");
  std::int64_t shards = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name.empty()) throw MeshError(fmt::format("mesh: axis {} has an empty name; name every axis", i));
    if (axes[i].name.find(',') != std::string::npos) {
      throw MeshError(
          fmt::format("mesh: axis \"{}\" has a comma in its name; texts of layouts have one between axes, so "
                      "name it otherwise",
                      axes[i].name));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (axes[i].name == axes[j].name) {
        throw MeshError(fmt::format("mesh: axis \"{}\" is named twice; names must differ", axes[i].name));
      }
    }
    if (!is_power_of_two(axes[i].size)) {
      throw MeshError(
          fmt::format("mesh: axis \"{}\" has size {}; shards are counted in powers of two (1, 2, 4, 8, ...)",
                      axes[i].name, axes[i].size));
    }
    if (axes[i].size > most_replicas / shards) {
      throw MeshError(
          fmt::format("mesh: {} has more than {} shards; give smaller axes", axes_text(axes), most_replicas));
    }
    shards *= axes[i].size;
  }
}

void check_devices(const std::vector<Device>& devices, std::int64_t shards, const std::vector<MeshAxis>& axes) {
  if (devices.empty()) throw MeshError("mesh: no devices given; write for example devices(\"cpu:0-1\")");
  for (std::size_t i = 0; i < devices.size(); ++i) {
    check_device("mesh", devices[i]);
    if (std::find(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(i), devices[i]) !=
        devices.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw MeshError(fmt::format("mesh: device {} is named twice", to_string(devices[i])));
    }
  }
  if (shards % static_cast<std::int64_t>(devices.size()) != 0) {
    throw MeshError(
        fmt::format("mesh: {} devices do not divide the {} shards of {}; every device runs the same number of shards, "
                    "so use 1, 2, 4 "
                    "... up to {} devices",
                    devices.size(), shards, axes_text(axes), shards));
  }
}

std::vector<Device> default_devices(std::int64_t shards) {
  const std::int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<Device> devices;
  const std::int64_t count =
      std::min(shards, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(cores))));
  for (int i = 0; i < count; ++i) devices.push_back({DeviceKind::cpu, i});
  return devices;
}

}  // namespace

struct Mesh::Parts {
  std::vector<MeshAxis> axes;
  std::vector<Device> devices;
};

const std::vector<MeshAxis>& Mesh::axes() const {
  static const std::vector<MeshAxis> none;
  return parts_ ? parts_->axes : none;
}

const std::vector<Device>& Mesh::devices() const {
  static const std::vector<Device> none;
  return parts_ ? parts_->devices : none;
}

bool Mesh::operator==(const Mesh& other) const {
  return parts_ == other.parts_ || (axes() == other.axes() && devices() == other.devices());
}

Mesh::Mesh() = default;
Mesh::Mesh(const Mesh& other) = default;
Mesh::Mesh(Mesh&& other) noexcept = default;
Mesh& Mesh::operator=(const Mesh& other) = default;
Mesh& Mesh::operator=(Mesh&& other) noexcept = default;
Mesh::~Mesh() = default;

Mesh::Mesh(std::vector<MeshAxis> axes, std::vector<Device> devices)
    : parts_(std::make_shared<const Parts>(Parts{std::move(axes), std::move(devices)})) {
  check_axes(this->axes());
  check_devices(this->devices(), shards(), this->axes());
}

std::int64_t Mesh::shards() const {
  std::int64_t product = 1;
  for (const MeshAxis& axis : axes()) product *= axis.size;
  return product;
}

std::int64_t Mesh::size(std::string_view axis) const {
  for (const MeshAxis& own : axes()) {
    if (own.name == axis) return own.size;
  }
  throw MeshError(fmt::format("mesh: there is no axis \"{}\"; the axes are {}", axis, axes_text(axes())));
}

Mesh data_mesh(std::int64_t shards, std::vector<Device> devices, std::int64_t batch) {
  if (shards < 0) throw MeshError(fmt::format("data_mesh: the number of shards must not be negative, got {}", shards));
  if (batch < 1) throw MeshError(fmt::format("data_mesh: the batch must have at least one row, got {}", batch));
  if (shards == 0) {
    shards = std::min<std::int64_t>(8, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(batch))));
  }
  if (devices.empty() && is_power_of_two(shards)) devices = default_devices(shards);
  if (devices.empty()) devices = {Device{}};
  return Mesh({{"batch", shards}}, std::move(devices));
}

}  // namespace lockstep
