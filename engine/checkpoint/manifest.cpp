#include "engine/checkpoint/manifest.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <lockstep/checkpoint.h>
#include <lockstep/error.h>

#include "engine/files/json_reader.h"

namespace lockstep::checkpoint {
namespace {

using json::Value;

const std::string sums_file = "SHA256SUMS";

/// What `sha256sum -c` reads.
std::string sums_of(const Manifest& manifest, const std::string& manifest_digest) {
  std::string text;
  if (manifest.format == whole_format) text = manifest.sha256 + "  " + arrays_file + "\n";
  return text + manifest_digest + "  " + manifest_file + "\n";
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

[[noreturn]] void fail_in_manifest(const std::filesystem::path& file, const std::string& what) {
  throw CheckpointError("[restore] " + file.string() + " " + what);
}

Named<std::string> texts_of(const std::filesystem::path& file, const Value& manifest, const std::string& field) {
  Named<std::string> texts;
  const Value* found = manifest.find(field);
  if (found == nullptr) return texts;
  if (found->entries() == nullptr) fail_in_manifest(file, "is no manifest; expected an object as " + field);
  for (const auto& [key, value] : *found->entries()) {
    if (value.text() == nullptr)
      fail_in_manifest(file, "is no manifest: '" + key + "' of its " + field + " is no text");
    texts.emplace(key, *value.text());
  }
  return texts;
}

Named<double> numbers_of(const std::filesystem::path& file, const Value& manifest, const std::string& field) {
  Named<double> numbers;
  for (const auto& [key, text] : texts_of(file, manifest, field)) {
    double number = 0;
    const char* end = text.data() + text.size();
    if (const auto read = std::from_chars(text.data(), end, number); read.ec != std::errc() || read.ptr != end) {
      fail_in_manifest(file,
                       "is no manifest: '" + key + "' of its " + field + " is '" + text + "', which is no number");
    }
    numbers.emplace(key, number);
  }
  return numbers;
}

/// Of a manager's checkpoint its step, and the leaf that counts it.
void read_step(const std::filesystem::path& file, const Value& manifest, Description& description) {
  const Value *step = manifest.find("step"), *counter = manifest.find("step_leaf");
  if (step != nullptr) {
    description.step = step->integer();
    if (!description.step || *description.step < 0) {
      fail_in_manifest(file, "is no manifest: its step is " + step->to_string() + ", which is no number of steps");
    }
  }
  if (counter == nullptr) return;
  if (counter->text() == nullptr || step == nullptr) {
    fail_in_manifest(file, "is no manifest: its step_leaf must be the path of a leaf, beside a step");
  }
  description.counter = *counter->text();
}

/// Throws CheckpointError where a folder is named after another step.
void check_name(const std::filesystem::path& folder, const Description& description) {
  const std::optional<std::int64_t> named = step_in(folder.filename().string());
  if (!named || !description.step || *named == *description.step) return;
  throw CheckpointError(fmt::format(
      "[restore] {} is named after step {}, but its manifest is of step {}; it was renamed or copied: give it the name "
      "{}{} again, or take another checkpoint",
      folder.string(), *named, *description.step, step_prefix, *description.step));
}

/// The file of sums.
std::string checked_sums(const std::filesystem::path& folder, const std::string& manifest_digest) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder / sums_file, ignored)) {
    throw CheckpointError(fmt::format(
        "[restore] {0} has no {1}, which says what its files are; they may have been changed: take another checkpoint, "
        "or, where you trust them, write it by (cd {0} && sha256sum $(ls {2} {3} 2>/dev/null) > {1})",
        folder.string(), sums_file, arrays_file, manifest_file));
  }
  std::string sums = read_text(folder / sums_file);
  if (sums.ends_with(manifest_digest + "  " + manifest_file + "\n")) return sums;
  fail_in_manifest(folder / manifest_file, "has SHA-256 " + manifest_digest + ", which " + sums_file +
                                               " does not say; one of the two was changed or damaged");
}

}  // namespace

std::optional<std::int64_t> step_in(std::string_view name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  const char* first = name.data() + step_prefix.size();
  const char* end = name.data() + name.size();
  std::int64_t step = -1;
  const auto [last, error] = std::from_chars(first, end, step);
  if (error != std::errc() || last != end || step < 0) return std::nullopt;
  return name.substr(step_prefix.size()) == std::to_string(step) ? std::optional(step)
                                                                 : std::nullopt;  // "0009" is no 9
}

std::string digest_of(std::span<const std::byte> bytes) {
  return sha256({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void QuickSum::add(std::span<const std::byte> bytes) {
  // Each word is mixed in by a map that is one to one, so one word that is another one is always seen.
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15U;
  std::uint64_t sum = sum_;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
    sum = (sum ^ word) * odd;
    sum ^= sum >> 32;
  }
  sum_ = sum;
}

std::string QuickSum::hex() const { return fmt::format("{:016x}", sum_); }

std::string quick_sum(std::span<const std::byte> bytes) {
  QuickSum sum(bytes.size());
  sum.add(bytes);
  return sum.hex();
}

void write_manifest(CommittedFolder& folder, const Manifest& manifest) {
  Value described = manifest.more.empty() ? Value::object() : json::parse(manifest.more).value.value();
  described["format"] = manifest.format;
  described["sha256"] = manifest.sha256;
  Value& entries = described["entries"] = Value::object();
  const Description& description = manifest.description;
  for (const auto& [name, text] : description.entries) entries[name] = text;
  for (const auto& [name, value] : description.metrics) described["metrics"][name] = fmt::format("{}", value);
  if (description.step) described["step"] = *description.step;
  if (!description.counter.empty()) described["step_leaf"] = description.counter;
  for (const auto& [path, sum] : manifest.array_sums) described["array_sums"][path] = sum;
  const std::string text = [&] {
    try {
      return described.to_string(2) + "\n";
    } catch (const DataError&) {
      throw CheckpointError("[save] the manifest holds what is no UTF-8 text; write its entries so");
    }
  }();
  folder.write(manifest_file, bytes_of(text));
  folder.write(sums_file, bytes_of(sums_of(manifest, digest_of(bytes_of(text)))));
}

Manifest parse_manifest(const std::string& text, const std::filesystem::path& file) {
  constexpr int deepest = 64;
  const json::Parsed parsed = json::parse(text, deepest);
  if (parsed.is_too_deep)
    fail_in_manifest(file, fmt::format("is no manifest: it is nested more than {} deep", deepest));
  if (!parsed.repeated.empty()) {
    fail_in_manifest(file, "is no manifest: '" + parsed.repeated.substr(0, 60) + "' appears twice in it");
  }
  const Value none;
  const Value& manifest = parsed.value ? *parsed.value : none;
  const Value *format = manifest.find("format"), *sha256 = manifest.find("sha256"), *entries = manifest.find("entries");
  if (format == nullptr || sha256 == nullptr || sha256->text() == nullptr || entries == nullptr ||
      entries->entries() == nullptr) {
    fail_in_manifest(file, "is no manifest; expected a JSON object with format, sha256 and entries");
  }
  if (format->integer() != whole_format && format->integer() != block_format) {
    fail_in_manifest(file, fmt::format("has format {}; this version reads {} and {}", format->to_string(), whole_format,
                                       block_format));
  }
  Description description{texts_of(file, manifest, "entries"), numbers_of(file, manifest, "metrics")};
  read_step(file, manifest, description);
  return {.format = *format->integer(),
          .sha256 = *sha256->text(),
          .description = std::move(description),
          .array_sums = texts_of(file, manifest, "array_sums"),
          .more = {},
          .text = text};
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / manifest_file;
  const std::string text = read_text(file);
  const std::string sums = checked_sums(folder, digest_of(bytes_of(text)));
  Manifest manifest = parse_manifest(text, file);
  if (sums != sums_of(manifest, digest_of(bytes_of(text)))) {
    fail_in_manifest(folder / sums_file,
                     "is not what was written beside " + manifest_file + "; it was changed or damaged");
  }
  check_name(folder, manifest.description);
  return manifest;
}

}  // namespace lockstep::checkpoint
