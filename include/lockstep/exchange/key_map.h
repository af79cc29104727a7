#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/tree.h>

namespace lockstep::exchange {

/// How a tensor of a file lies, as against the variable.
enum class WeightForm : std::uint8_t {
  same,          ///< Alike.
  transposed,    ///< A matrix [out, in] for our [in, out].
  spatial_last,  ///< A convolution's kernel [O, I, window...] for our [window..., I, O].
  torch_modules,  ///< The one of these that PyTorch's modules have: by the variable's name and rank, `kernel` alone differs.
};

/// One of `count` equal parts.
struct EqualPart {
  std::int64_t index = 0;
  std::int64_t count = 1;
};

/// Which variable a tensor of a file is.
struct KeyRule {
  std::string name;  ///< A regular expression (ECMAScript) for the whole name in the file.
  /// The variable's path, $1 standing for the first group of the expression. Of several between '|' the first one that the
  /// model has. Empty: the tensor is left out.
  std::string path;
  WeightForm form = WeightForm::same;
  bool also = false;  ///< Besides the rule before it that took the tensor: weights that are tied there and not here.
  EqualPart of_tensor = {};  ///< Only that part of the tensor, along its first dimension; other rules take the others.
  EqualPart of_variable =
      {};  ///< Only that part of the variable, along its last dimension; other tensors make the others.
};

/// Rules in order: the first that fits a name counts, and behind it those marked `also` and those that take other parts of
/// the tensor.
using KeyMap = std::vector<KeyRule>;

/// The rules for what a PyTorch module has: `weight` (kernel, gamma or embeddings), `bias` (bias or beta), `running_mean`,
/// `running_var`; `num_batches_tracked` is left out. `name` is a regular expression for the module's own name, `path` where
/// the layer is: torch_module("layer1\\.(\\d)\\.conv1", "stage_0/block_$1/first/conv").
LOCKSTEP_API KeyMap torch_module(std::string_view name, std::string_view path);
/// Several maps as one, in order.
LOCKSTEP_API KeyMap joined(const std::vector<KeyMap>& maps);

/// A model's variables, (trainable, non-trainable) as Model::init gives them, with the values of a file's tensors; floats
/// of another width are converted, and dimensions of extent 1 that one of both lacks are no difference. State of random layers ("<path>/rng") is kept. Throws StateError that lists every
/// variable that no tensor is for, every tensor that no rule or no variable is for, every one of another shape or dtype,
/// each with the nearest name there is.
LOCKSTEP_API std::pair<Tree, Tree> import_weights(const Tree& trainable, const Tree& non_trainable,
                                                  const std::map<std::string, Array>& tensors, const KeyMap& map);
/// The way back: tensors of the names, shapes and dtypes of `like`, which a file of the other library gave, with the values
/// of the variables, of tied ones the first rule's. What the map leaves out is as in `like`. Throws StateError likewise.
LOCKSTEP_API std::map<std::string, Array> export_weights(const Tree& trainable, const Tree& non_trainable,
                                                         const std::map<std::string, Array>& like, const KeyMap& map);

}  // namespace lockstep::exchange
