#include <string>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/exchange/weight_files.h>

namespace lockstep::exchange {
namespace {

enum class Format { safetensors, npz, torch };

Format format_of(const std::filesystem::path& file, const std::string& who) {
  const std::string ending = file.extension().string();
  if (ending == ".safetensors") return Format::safetensors;
  if (ending == ".npz") return Format::npz;
  if (ending == ".pt" || ending == ".pth" || ending == ".bin") return Format::torch;
  throw ValueError("[" + who + "] " + file.string() + " ends in '" + ending +
                   "'; expected .safetensors, .npz, or .pt, .pth or .bin of PyTorch");
}

/// Adds the leaves of a tree, whose names begin so.
void add_leaves(const Tree& tree, const std::string& name, Named<Array>& tensors) {
  if (tree.is_leaf()) {
    if (tensors.emplace(name, tree.array()).second) return;
    throw ValueError("[save_weights] two leaves of the tree are called '" + name +
                     "' with dots between their keys; rename a key of one");
  }
  const std::string prefix = name.empty() ? "" : name + ".";
  std::size_t index = 0;
  if (tree.kind() == Tree::Kind::list) {
    for (const Tree& item : tree.items()) add_leaves(item, prefix + std::to_string(index++), tensors);
  } else if (tree.kind() == Tree::Kind::dict) {
    for (const auto& [key, item] : tree.entries()) add_leaves(item, prefix + key, tensors);
  }
}

}  // namespace

std::map<std::string, Array> load_weights(const std::filesystem::path& file) {
  switch (format_of(file, "load_weights")) {
    case Format::safetensors:
      return checkpoint::load_safetensors(file);
    case Format::npz:
      return load_npz(file);
    case Format::torch:
      break;
  }
  return load_torch(file);
}

void save_weights(const std::filesystem::path& file, const Named<Array>& tensors) {
  switch (format_of(file, "save_weights")) {
    case Format::safetensors:
      return checkpoint::save_safetensors(file, tensors);
    case Format::npz:
      return save_npz(file, tensors);
    case Format::torch:
      return save_torch(file, tensors);
  }
}

void detail::save_tree_weights(const std::filesystem::path& file, const Tree& tree) {
  if (tree.is_leaf()) {
    throw ValueError("[save_weights] the tree is one leaf, which has no name; give a dict, {{\"name\", array}}");
  }
  Named<Array> tensors;
  add_leaves(tree, "", tensors);
  save_weights(file, tensors);
}

}  // namespace lockstep::exchange
