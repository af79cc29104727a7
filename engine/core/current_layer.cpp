#include "engine/core/current_layer.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

using detail::SourceLocation;

struct Entry {
  std::uint64_t number;
  std::shared_ptr<const std::string> path;
  place::Layer::Kind kind;
};

/// A source file of the library, by the address of its name.
struct LibraryFile {
  const char* name = nullptr;
  bool is_of_array_functions = false;
};

/// Where a thread is: the program's code calls into the library, and hands nothing down that says from where.
struct ThreadPlace {
  SourceLocation call = {};
  const char* user_file = nullptr;                 ///< The last file name that was found to be of the program's.
  std::array<LibraryFile, 16> library_files = {};  ///< Each at the place of its address.
};
constinit thread_local ThreadPlace here;

std::vector<Entry>& open_layers() {
  thread_local std::vector<Entry> layers;
  return layers;
}

/// The folder of the library's sources, as the compiler was given it.
std::string_view source_folder() {
  static const std::string_view folder = [] {
    const std::string_view file = SourceLocation::current().file_name();
    const std::size_t end = file.rfind("engine/core/current_layer.cpp");
    return end == std::string_view::npos ? std::string_view("/no folder") : file.substr(0, end);
  }();
  return folder;
}

/// Whether code of the library stands there, or of the standard's, which calls it by a std::function.
bool is_of_library(std::string_view file) {
  const std::string_view folder = source_folder();
  if (file.starts_with(folder)) {
    const std::string_view inside = file.substr(folder.size());
    return inside.starts_with("engine/") || inside.starts_with("backends/") || inside.starts_with("include/");
  }
  return file.empty() || file.starts_with("/usr/include/") ||
         file.find("include/lockstep/") != std::string_view::npos ||
         file.find("/include/c++/") != std::string_view::npos;
}

/// Whether it has functions of arrays such as `where`, whose ops are what a caller wrote.
bool is_of_array_functions(std::string_view file) {
  const std::string_view folder = source_folder();
  return !file.starts_with(folder) || file.substr(folder.size()).starts_with("engine/api/") ||
         file.substr(folder.size()).starts_with("include/");
}

std::string_view base_name(std::string_view file) { return file.substr(file.find_last_of("/\\") + 1); }

bool has_place(std::string_view text) {
  if (text.find(" (in layer ") != std::string_view::npos) return true;
  constexpr std::string_view start = " (at ";
  const std::size_t at = text.find(start);
  if (at == std::string_view::npos) return false;
  const std::string_view file_and_line =
      text.substr(at + start.size(), text.find_first_of(",)", at) - at - start.size());
  return file_and_line.find(':') != std::string_view::npos && file_and_line.find(' ') == std::string_view::npos;
}

}  // namespace

SourceLocation detail::enter_call(const SourceLocation& at) noexcept {
  const SourceLocation outer = here.call;
  const char* file = at.file_name();
  if (file != here.user_file) {
    LibraryFile& known = here.library_files[reinterpret_cast<std::uintptr_t>(file) / 16 % here.library_files.size()];
    if (file == known.name || is_of_library(file)) {
      if (file != known.name) known = {file, is_of_array_functions(file)};
      here.call.in_library_ = here.call.in_library_ || !known.is_of_array_functions;
      return outer;
    }
    here.user_file = file;
  }
  here.call = at;
  return outer;
}

void detail::leave_call(const SourceLocation& outer) noexcept { here.call = outer; }

namespace place {

Layer::Layer(std::shared_ptr<const std::string> path, Kind kind) : path_(std::move(path)), kind_(kind) {
  static std::atomic<std::uint64_t> count = 0;
  number_ = ++count;
  open_layers().push_back({number_, path_, kind_});
}

Layer::~Layer() {
  std::erase_if(open_layers(), [&](const Entry& entry) {
    return entry.number == number_ || (kind_ == Kind::named && entry.kind == Kind::of_scope && *entry.path == *path_);
  });
}

void Layer::touch() const {
  std::erase_if(open_layers(), [&](const Entry& entry) { return entry.number == number_; });
  open_layers().push_back({number_, path_, kind_});
}

std::string layer() {
  const std::vector<Entry>& layers = open_layers();
  return layers.empty() ? std::string() : *layers.back().path;
}

const SourceLocation& call() noexcept { return here.call; }

std::string text_of(const SourceLocation& call) {
  if (call.line() == 0) return {};
  return std::string(base_name(call.file_name())) + ":" + std::to_string(call.line());
}

std::string placed(const std::string& text) {
  if (has_place(text)) return text;
  std::string place = text_of(here.call);
  if (!place.empty()) place = "at " + place;
  const std::string path = layer();
  if (!path.empty() && text.find("'" + path + "'") == std::string::npos) {
    place += std::string(place.empty() ? "" : ", ") + "in layer \"" + path + "\"";
  }
  return place.empty() ? text : text + " (" + place + ")";
}

}  // namespace place

}  // namespace lockstep
