#include <algorithm>
#include <filesystem>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>
#include <lockstep/exchange/exported_function.h>
#include <lockstep/exchange/stablehlo.h>
#include <lockstep/exchange/weight_files.h>
#include <lockstep/function.h>

#include "engine/checkpoint/block_files.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/cli/settings.h"
#include "engine/exchange/tree_form.h"
#include "engine/exchange/zip_writer.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/readers.h"

namespace lockstep::tests {
namespace {

using Json = nlohmann::json;

/// The bytes up to the next NUL, which go from `rest`.
std::string_view next_part(std::string_view& rest) {
  const std::string_view part = rest.substr(0, rest.find('\0'));
  rest.remove_prefix(std::min(rest.size(), part.size() + 1));
  return part;
}

std::string_view text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void read_safetensors(std::string_view bytes) {
  for (const auto unnamed : {checkpoint::Unnamed::refused, checkpoint::Unnamed::in_parts}) {
    checkpoint::read_safetensors(std::as_bytes(std::span(bytes.data(), bytes.size())), "fuzzed", unnamed);
  }
}

/// The pickle of a .pt file, in an archive with storages of 16 bytes: no changed byte would pass the archive's sums.
void read_torch(std::string_view pickle) {
  exchange::ZipWriter zip("fuzz", "fuzzed");
  zip.add("a/data.pkl", pickle);
  for (const char* name : {"a/data/0", "a/data/1"}) zip.add(name, std::string_view("0123456789abcdef"));
  exchange::load_torch(file_in_memory(text_of(std::move(zip).finish())));
}

/// manifest.json, NUL, program.txt, NUL, constants.safetensors: the entries of an exported function, which is called.
void read_exported(std::string_view bytes) {
  exchange::ZipWriter zip("fuzz", "fuzzed");
  zip.add("manifest.json", next_part(bytes));
  zip.add("program.txt", next_part(bytes));
  zip.add("constants.safetensors", bytes);
  static_cast<void>(exchange::load_function(file_in_memory(text_of(std::move(zip).finish()))).input_types());
}

/// A manifest, and the index in it where it has one; its digest is made to fit, or no changed byte would pass.
void read_manifest(std::string_view text) {
  const checkpoint::Manifest manifest = checkpoint::parse_manifest(std::string(text), "/nowhere/manifest.json");
  if (manifest.format != checkpoint::block_format) return;
  Json json = Json::parse(manifest.text);
  if (json.contains("arrays") && json.contains("blocks")) {
    json["sha256"] = sha256(json["arrays"].dump() + json["blocks"].dump());
  }
  checkpoint::BlockFiles("/nowhere", json.dump());
}

/// A structure of trees; what is read is written the same.
void read_json(std::string_view text) {
  const std::size_t leaves = exchange::leaves_of_form(text, "fuzzed");
  const Tree tree = exchange::tree_of_form(text, std::vector<Array>(leaves), "fuzzed");
  const std::string written = exchange::tree_form(tree);
  if (exchange::tree_form(exchange::tree_of_form(written, std::vector<Array>(leaves), "fuzzed")) != written) {
    throw std::string("a structure that is written is read as another one");
  }
}

void read_toml(std::string_view text) {
  std::istringstream config{std::string(text)};
  std::vector<std::string> settings;
  for (const std::string& argument : cli::config_arguments(config, "fuzzed", {"train", "--batch", "64"})) {
    if (argument.find('=') != std::string::npos && !argument.starts_with("--")) settings.push_back(argument);
  }
  cli::parse_settings(settings);
}

/// What is read is written so that it reads as the same.
void read_program(std::string_view text) {
  const std::string written = parse_function(text).to_string();
  if (parse_function(written).to_string() != written) throw std::string("a program is read as another one");
}

}  // namespace

const std::vector<Reader>& engine_readers() {
  static const std::vector<Reader> readers = {
      {"safetensors", read_safetensors},
      {"torch", read_torch},
      {"exported", read_exported},
      {"manifest", read_manifest},
      {"json", read_json},
      {"toml", read_toml},
      {"program", read_program},
      {"stablehlo", [](std::string_view text) { static_cast<void>(exchange::from_stablehlo(text)); }},
  };
  return readers;
}

}  // namespace lockstep::tests
