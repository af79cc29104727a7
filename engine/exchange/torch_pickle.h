#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

namespace lockstep::exchange {

/// A value of a pickle; which fields count, `kind` says.
struct PickleValue {
  enum class Kind : std::uint8_t { none, boolean, integer, real, text, tuple, list, dict, global, storage, tensor };
  Kind kind = Kind::none;
  std::int64_t integer = 0;  ///< Of a storage: how many elements.
  double real = 0;
  std::string text;                       ///< Of a global "module name"; of a storage its key.
  std::vector<const PickleValue*> items;  ///< Of a dict key, value, ...; of a tensor storage, offset, sizes, strides.
  std::string storage_class;              ///< "FloatStorage".
  bool conjugated = false, negated = false;  ///< Of a tensor: its elements are those of the storage after that.
};

/// Reads the pickle that torch.save writes of dicts of tensors (protocol 2, the opcodes and globals of those alone). It
/// makes values and runs nothing. Nesting is bounded by who walks through them: values may hold themselves.
class TorchPickle {
 public:
  /// Throws DataError naming `file`, the byte and the opcode or global that is not among them.
  TorchPickle(std::span<const std::byte> bytes, std::string file);
  const PickleValue& root() const { return *root_; }

 private:
  class Machine;

  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
};

/// The pickle of an OrderedDict of tensors.
struct PickledTensor {
  std::string name;
  std::string_view storage_class;
  std::vector<std::int64_t> shape;
};
/// Tensor i has the storage of key "i", row-major.
std::string write_torch_pickle(const std::vector<PickledTensor>& tensors);

}  // namespace lockstep::exchange
