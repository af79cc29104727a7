#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/model_parallel.h>

// How the leaves of a step's state and batch lie over the mesh of model_parallel.
namespace lockstep::train {

/// Of one variable.
struct VariableLayout {
  ArrayType type;
  Layout read;      ///< As the loss reads it.
  Layout kept;      ///< As the state has it, between steps.
  Layout gradient;  ///< As its gradient is reduced.
  Layout slot;      ///< Of optimizer slots of its shape.
};

class VariableLayouts {
 public:
  /// `declared`: layouts that variables declare themselves, by path. Throws MeshError naming variable, dimension and axis
  /// where a layout does not fit, where two rules match, and, if the options are strict, for a rule that matches nothing.
  VariableLayouts(const ModelParallelOptions& options, const Tree& trainable, const Tree& non_trainable,
                  const std::map<std::string, Layout>& declared);

  /// Of a leaf of the state: "trainable/head/kernel".
  Layout of_state(const std::string& path, const ArrayType& type) const;
  /// Parameters as the loss reads them, and gradients as the optimizer does.
  Tree read(const Tree& trainable) const;
  Tree reduced(const Tree& gradients) const;
  const std::vector<std::string>& unused_rules() const { return unused_; }

 private:
  /// Rules that no variable has. Throws MeshError for one where they must not be.
  void add_unused(const LayoutMap& map, const std::vector<bool>& used, std::string_view of, bool is_strict,
                  const Tree& trainable);
  const VariableLayout* parameter_of_slot(const std::string& path, const ArrayType& type) const;

  std::map<std::string, VariableLayout> trainable_;
  std::map<std::string, VariableLayout> non_trainable_;
  std::vector<std::string> unused_;
};

/// What cuts the batch's rows. Throws MeshError where the mesh has no axis "data" or "batch" and none is given.
DimensionAxes batch_axes_of(const ModelParallelOptions& options);
/// Into how many parts.
std::int64_t batch_blocks(const ModelParallelOptions& options);
/// Throws MeshError for axes that the mesh has not, ValueError for a stage of zero outside of 0 to 3.
void check(const ModelParallelOptions& options);

}  // namespace lockstep::train
