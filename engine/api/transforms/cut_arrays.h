#pragma once

#include <string>
#include <vector>

#include <lockstep/attrs.h>
#include <lockstep/parallel.h>

namespace lockstep::api {

/// Attributes of `reshard`: over the mesh, cut as a map's attributes say.
Attrs reshard_attrs(const Mesh& mesh, std::vector<std::string> cuts);
/// Such cuts as a layout.
Layout layout_of_cuts(const std::vector<std::string>& cuts);

}  // namespace lockstep::api
