#pragma once

#include <span>
#include <string>
#include <vector>

#include <lockstep/attrs.h>
#include <lockstep/parallel.h>

namespace lockstep::api {

/// Attributes of `reshard`: over the mesh, cut as a map's attributes say.
Attrs reshard_attrs(const Mesh& mesh, std::vector<std::string> cuts);
/// Such cuts as a layout.
Layout layout_of_cuts(const std::vector<std::string>& cuts);

/// The results of a pmap with these attributes over the mesh, of which those that `out` cuts stay cut.
std::vector<Array> kept_cut(std::span<const Array> operands, const Attrs& map, const Mesh& mesh,
                            const std::vector<std::vector<std::string>>& out);

}  // namespace lockstep::api
