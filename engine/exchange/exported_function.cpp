#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/exchange/exported_function.h>
#include <lockstep/indexing.h>
#include <lockstep/manipulation.h>
#include <lockstep/moved_from.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>
#include <lockstep/version.h>

#include "engine/checkpoint/committed_folder.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/data/files/mapped_file.h"
#include "engine/data/files/zip_archive.h"
#include "engine/exchange/tree_form.h"
#include "engine/exchange/zip_writer.h"
#include "engine/files/json_reader.h"

namespace lockstep::exchange {
namespace {

constexpr std::string_view format = "lockstep.function";
constexpr std::int64_t format_version = 1;
constexpr const char* manifest_name = "manifest.json";
constexpr const char* program_name = "program.txt";
constexpr const char* constants_name = "constants.safetensors";

/// Names that sort as the constants do.
std::string constant_name(std::size_t i) { return fmt::format("{:06}", i); }

/// What safetensors has no dtype for has a last dimension more: a key its two words, a complex number its parts.
Array as_stored(const Array& constant) {
  if (constant.dtype() == DType::key) return random::key_data(constant);
  return is_complex(constant.dtype()) ? stack({real(constant), imag(constant)}, -1) : constant;
}
/// As the program takes it; what does not fit as it is.
Array as_taken(const Array& stored, const ArrayType& type) {
  if (stored.ndim() != type.shape.rank() + 1 || stored.shape()[stored.ndim() - 1] != 2) return stored;
  if (type.dtype == DType::key && stored.dtype() == DType::uint32) return random::wrap_key_data(stored);
  const DType part = type.dtype == DType::complex64 ? DType::float32 : DType::float64;
  if (!is_complex(type.dtype) || stored.dtype() != part) return stored;
  const auto part_of = [&](std::int64_t i) { return squeeze(slice_in_dim(stored, i, i + 1, -1), Axes{-1}); };
  return complex(part_of(0), part_of(1));
}

}  // namespace

struct ExportedFunction::Impl {
  Function program;
  std::vector<Array> constants;
  std::vector<std::string> arguments;  ///< Structures, as tree_form.
  std::string result;
  std::string written_by;
  std::string file;
};

const Function& ExportedFunction::program() const { return lockstep::detail::held(impl_, "function").program; }
const std::vector<Array>& ExportedFunction::constants() const {
  return lockstep::detail::held(impl_, "function").constants;
}
const std::string& ExportedFunction::written_by() const { return lockstep::detail::held(impl_, "function").written_by; }
std::vector<ArrayType> ExportedFunction::output_types() const { return program().output_types(); }
std::vector<ArrayType> ExportedFunction::input_types() const {
  std::vector<ArrayType> types = program().input_types();
  types.resize(types.size() - constants().size());
  return types;
}

namespace {

/// The structure over the numbers from `first` on, which it moves.
Tree numbered_tree(const std::string& form, const std::string& file, std::int32_t& first) {
  std::vector<Array> numbers;
  for (std::size_t left = leaves_of_form(form, file); left > 0; --left) numbers.push_back(array(first++));
  return tree_of_form(form, std::move(numbers), file);
}

}  // namespace

std::vector<Tree> ExportedFunction::argument_structures() const {
  const Impl& impl = lockstep::detail::held(impl_, "function");
  std::vector<Tree> structures;
  std::int32_t next = 0;
  for (const std::string& form : impl.arguments) structures.push_back(numbered_tree(form, impl.file, next));
  return structures;
}

Tree ExportedFunction::result_structure() const {
  const Impl& impl = lockstep::detail::held(impl_, "function");
  std::int32_t next = 0;
  return numbered_tree(impl.result, impl.file, next);
}

Tree ExportedFunction::call(const std::vector<Tree>& arguments) const {
  const Impl& impl = lockstep::detail::held(impl_, "function");
  if (arguments.size() != impl.arguments.size()) {
    throw StateError(fmt::format("[load_function] the function of {} takes {} arguments, {} are given", impl.file,
                                 impl.arguments.size(), arguments.size()));
  }
  std::vector<Array> leaves;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (const std::string given = tree_form(arguments[i]); given != impl.arguments[i]) {
      throw StateError(
          fmt::format("[load_function] argument {} of the function of {} has the structure {}; expected {}", i,
                      impl.file, given, impl.arguments[i]));
    }
    for (Array& leaf : arguments[i].leaves()) leaves.push_back(std::move(leaf));
  }
  leaves.insert(leaves.end(), impl.constants.begin(), impl.constants.end());
  return tree_of_form(impl.result, impl.program(leaves), impl.file);
}

void detail::export_function(const std::filesystem::path& file, const TreeFunction& function,
                             const std::vector<Tree>& examples) {
  std::string result;
  const Function program = trace(
      [&](const std::vector<Tree>& arguments) {
        Tree value = function(arguments);
        result = tree_form(value);
        return value;
      },
      examples);
  std::map<std::string, Array> constants;
  for (const Array& constant : lockstep::detail::captured_arrays(program)) {
    constants.emplace(constant_name(constants.size()), as_stored(constant));
  }
  json::Value manifest;
  manifest["format"] = format;
  manifest["version"] = format_version;
  manifest["lockstep"] = version();
  json::Value& arguments = manifest["arguments"] = json::Value::list();
  for (const Tree& example : examples) arguments.push_back(tree_form(example));
  manifest["result"] = result;
  manifest["constants"] = constants.size();
  ZipWriter zip("export_function", file.string());
  zip.add(manifest_name, manifest.to_string(2) + "\n");
  zip.add(program_name, program.to_string() + "\n");
  zip.add(constants_name, checkpoint::write_safetensors(constants));
  checkpoint::replace_file(file, std::move(zip).finish());
}

namespace {

class FunctionFile {
 public:
  explicit FunctionFile(const std::filesystem::path& path)
      : file_(path, "load_function"),
        bytes_(file_.bytes()),
        entries_(data::zip_entries(bytes_, file_.name(), "load_function")) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError("[load_function] " + file_.name() + ": " + what);
  }
  const std::string& name() const { return file_.name(); }
  std::vector<std::byte> entry(const std::string& name) const {
    const auto found = std::ranges::find(entries_, name, &data::ZipEntry::name);
    if (found == entries_.end()) fail("no " + name + " in it; expected what export_function writes");
    return data::unpack(bytes_, *found, file_.name(), "load_function");
  }
  std::string entry_text(const std::string& name) const { return std::string(data::as_text(entry(name))); }

  /// What manifest.json says, and the program.
  ExportedFunction::Impl without_constants() const {
    const std::optional<json::Value> read = json::parse(entry_text(manifest_name)).value;
    const json::Value none;
    const json::Value& manifest = read ? *read : none;
    const auto text_of = [&](const char* name) {
      const json::Value* found = manifest.find(name);
      return found == nullptr ? nullptr : found->text();
    };
    if (text_of("format") == nullptr || *text_of("format") != format) {
      fail("manifest.json is not of the format 'lockstep.function'; expected what export_function writes");
    }
    check_version(manifest.find("version"));
    const json::Value* arguments = manifest.find("arguments");
    const std::string *result = text_of("result"), *written_by = text_of("lockstep");
    const auto is_text = [](const json::Value& argument) { return argument.text() != nullptr; };
    if (arguments == nullptr || arguments->items() == nullptr || !std::ranges::all_of(*arguments->items(), is_text) ||
        result == nullptr || written_by == nullptr) {
      fail("manifest.json has no arguments, result and lockstep; the file is damaged");
    }
    ExportedFunction::Impl impl{parse_function(entry_text(program_name)), {}, {}, *result, *written_by, name()};
    for (const json::Value& argument : *arguments->items()) impl.arguments.push_back(*argument.text());
    return impl;
  }

 private:
  void check_version(const json::Value* version) const {
    const std::optional<std::int64_t> number = version == nullptr ? std::nullopt : version->integer();
    if (number && *number >= 1 && *number <= format_version) return;
    const bool is_number = version != nullptr && version->number();
    const std::string given = version == nullptr ? "null" : std::string(version->type_name());
    fail("it is of version " + (is_number ? version->to_string() : given) +
         " of the format; this library reads version 1: take a newer one");
  }

  data::MappedFile file_;
  std::span<const std::byte> bytes_;
  std::vector<data::ZipEntry> entries_;
};

void check_counts(const FunctionFile& file, const Function& program, const ExportedFunction::Impl& impl) {
  const std::vector<ArrayType> inputs = program.input_types();
  std::size_t leaves = 0;
  for (const std::string& argument : impl.arguments) leaves += leaves_of_form(argument, file.name());
  if (leaves + impl.constants.size() != inputs.size()) {
    file.fail(fmt::format("the program takes {} arrays; {} of arguments and {} constants are given", inputs.size(),
                          leaves, impl.constants.size()));
  }
  if (leaves_of_form(impl.result, file.name()) != program.output_types().size()) {
    file.fail(fmt::format("the program gives {} arrays, the result has another number", program.output_types().size()));
  }
  for (std::size_t i = 0; i < impl.constants.size(); ++i) {
    const ArrayType &stored = impl.constants[i].type(), &taken = inputs[leaves + i];
    if (stored.dtype == taken.dtype && stored.shape == taken.shape) continue;
    file.fail(fmt::format("constant {} is {}, the program takes {}", i, to_string(stored), to_string(taken)));
  }
}

}  // namespace

ExportedFunction load_function(const std::filesystem::path& path) {
  const FunctionFile file(path);
  ExportedFunction::Impl impl = file.without_constants();
  const std::vector<ArrayType> inputs = impl.program.input_types();
  auto constants = checkpoint::read_safetensors(file.entry(constants_name), file.name());
  std::size_t next = inputs.size() - std::min(inputs.size(), constants.size());
  for (auto& [name, constant] : constants) {
    impl.constants.push_back(next < inputs.size() ? as_taken(constant, inputs[next]) : std::move(constant));
    ++next;
  }
  check_counts(file, impl.program, impl);
  return ExportedFunction(std::make_shared<const ExportedFunction::Impl>(std::move(impl)));
}

}  // namespace lockstep::exchange
