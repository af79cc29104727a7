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

}  // namespace lockstep::exchange
