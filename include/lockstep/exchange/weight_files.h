#pragma once

#include <concepts>
#include <filesystem>
#include <map>
#include <string>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/named.h>
#include <lockstep/tree.h>

/// What comes from other libraries and goes to them: weights, functions, programs. docs/guides/exchange.md shows all of it.
namespace lockstep::exchange {

/// The tensors of a weight file by name: .safetensors, .npz, or PyTorch's .pt, .pth and .bin, told by the file's ending.
/// Sizes are checked before memory is taken. Throws DataError (CheckpointError of .safetensors) naming file and tensor,
/// ValueError for another ending.
LOCKSTEP_API std::map<std::string, Array> load_weights(const std::filesystem::path& file);
/// Writes such a file, or replaces it as a whole. Throws DataError naming file and system error, or a tensor whose dtype
/// the format does not know; ValueError for another ending.
LOCKSTEP_API void save_weights(const std::filesystem::path& file, const Named<Array>& tensors);

namespace detail {
/// What save_weights of a tree calls.
LOCKSTEP_API void save_tree_weights(const std::filesystem::path& file, const Tree& tree);
}  // namespace detail
/// The same of a tree's leaves, each under the keys of its path with dots between them, as PyTorch's names are:
/// "encoder.kernel". Throws ValueError for two leaves of one name ("a.b" and "b" in "a") and for a tree that is one leaf. A
/// template, so that {{"name", array}} is the list above.
template <std::same_as<Tree> T>
void save_weights(const std::filesystem::path& file, const T& tree) {
  detail::save_tree_weights(file, tree);
}

/// The arrays of a .npz file, as numpy.load gives them; those of texts, dates, objects or fields are left out. Throws
/// DataError.
LOCKSTEP_API std::map<std::string, Array> load_npz(const std::filesystem::path& file);
/// What numpy.load reads, stored without compression. bfloat16 and keys, which NumPy does not know, are a DataError.
LOCKSTEP_API void save_npz(const std::filesystem::path& file, const Named<Array>& tensors);

/// The tensors of a file that torch.save wrote of a dict of tensors, a state_dict for one; of dicts inside of it under
/// "outer.inner". Strides and storages that tensors share are honoured; values that are no tensors are left out. The
/// pickle inside is read by its own few opcodes, and nothing that it names is run: another opcode, another global or a
/// storage type without a dtype is a DataError that names it, so are files of PyTorch before 1.6 (no zip).
LOCKSTEP_API std::map<std::string, Array> load_torch(const std::filesystem::path& file);
/// What torch.load(file, weights_only=True) reads: an OrderedDict of CPU tensors, row-major. Keys and uint16, uint32 and
/// uint64, for which torch has no storage class, are a DataError.
LOCKSTEP_API void save_torch(const std::filesystem::path& file, const Named<Array>& tensors);

}  // namespace lockstep::exchange
