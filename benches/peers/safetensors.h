#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <ATen/core/Tensor.h>

/// Tensors of type F32 or I32 by name. Throws std::runtime_error for a file that cannot be read or has another type.
std::map<std::string, at::Tensor> read_safetensors(const std::filesystem::path& file);
