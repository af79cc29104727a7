#include "backends/jit/code_record.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include <unistd.h>

#include <lockstep/error.h>

namespace lockstep::backend::jit {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void write_file(const std::filesystem::path& file, std::ios::openmode mode, std::span<const char> bytes) {
  std::ofstream out(file, std::ios::binary | mode);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.flush();
  if (!out) {
    throw BackendError("jit backend: " + file.string() +
                       " cannot be written; unset LOCKSTEP_PERF_MAP, or set LOCKSTEP_DUMP_CODE to a folder that can");
  }
}

/// Of letters and digits, so that it is a file's name and one word in a shell.
std::string file_name(int number, std::string_view label) {
  constexpr std::size_t longest = 100;
  std::string name(label.substr(0, longest));
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return std::to_string(number) + "-" + name + ".bin";
}

}  // namespace

CodeRecord::CodeRecord(std::filesystem::path map, std::filesystem::path folder)
    : map_(std::move(map)), folder_(std::move(folder)) {}

CodeRecord CodeRecord::of_environment() {
  const std::string wanted = environment("LOCKSTEP_PERF_MAP");
  const bool has_map = !wanted.empty() && wanted != "0";
  return {has_map ? "/tmp/perf-" + std::to_string(getpid()) + ".map" : "", environment("LOCKSTEP_DUMP_CODE")};
}

void CodeRecord::add(std::span<const std::byte> code, std::string_view label) {
  if (!map_.empty()) {
    std::ostringstream line;
    line << std::hex << reinterpret_cast<std::uintptr_t>(code.data()) << ' ' << code.size() << " lockstep:" << label
         << '\n';
    write_file(map_, std::ios::app, line.str());
  }
  if (folder_.empty()) return;
  std::error_code ignored;  // the file then cannot be written
  std::filesystem::create_directories(folder_, ignored);
  write_file(folder_ / file_name(number_++, label), std::ios::trunc,
             {reinterpret_cast<const char*>(code.data()), code.size()});
}

}  // namespace lockstep::backend::jit
