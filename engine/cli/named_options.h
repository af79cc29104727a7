#pragma once

#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <lockstep/models.h>

namespace lockstep::cli {

/// A text that is a number and nothing else.
template <class T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Options that were given by name as text, such as "optimizer.b1": those of one thing, which takes what it knows.
class NamedOptions final : public models::OptionsByName {
 public:
  /// `of`: the word before the point; `all`: every option that was given.
  NamedOptions(std::string_view of, const std::map<std::string, std::string>& all);

  /// The option's value, or the default where it was not given. Throws ValueError naming an option whose text is no such
  /// value.
  double number(const std::string& name, double otherwise) override;
  std::int64_t integer(const std::string& name, std::int64_t otherwise) override;
  /// An integer of at least 1.
  std::int64_t count(const std::string& name, std::int64_t otherwise);
  bool flag(const std::string& name, bool otherwise) override;
  std::string word(const std::string& name, const std::string& otherwise);
  /// Integers between commas.
  std::vector<std::int64_t> integers(const std::string& name, const std::vector<std::int64_t>& otherwise) override;

  /// Throws ValueError for an option that nobody has asked for, listing those that were. `what`: "the optimizer 'adamw'".
  void check_all_taken(const std::string& what) const;

 private:
  template <class T>
  T parsed(const std::string& name, T otherwise, const char* kind);

  std::string of_;
  std::map<std::string, std::string> given_;  ///< By name without the word before the point.
  std::vector<std::string> known_;
};

}  // namespace lockstep::cli
