#include "engine/api/transforms/mesh_attrs.h"

#include <memory>
#include <utility>

namespace lockstep::api {

ir::AxisSizes axis_sizes(const Mesh& mesh) {
  std::vector<ir::AxisSizes::Axis> axes;
  for (const MeshAxis& axis : mesh.axes()) axes.push_back({axis.name, axis.size});
  return ir::AxisSizes(std::move(axes));
}

Attrs mesh_attributes(const Mesh& mesh) {
  std::vector<std::string> axes;
  std::vector<std::int64_t> sizes;
  for (const MeshAxis& axis : mesh.axes()) {
    axes.push_back(axis.name);
    sizes.push_back(axis.size);
  }
  std::vector<std::string> devices;
  for (const Device& device : mesh.devices()) devices.push_back(to_string(device));
  return {{"axes", std::move(axes)}, {"sizes", std::move(sizes)}, {"devices", std::move(devices)}};
}

Attrs map_attributes(const Mesh& mesh, const ir::FunctionPtr& body, std::vector<std::vector<std::string>> in,
                     std::vector<std::vector<std::string>> out) {
  return mesh_attributes(mesh)
      .with("body", std::static_pointer_cast<const AttrObject>(body))
      .with("in", std::move(in))
      .with("out", std::move(out));
}

}  // namespace lockstep::api
