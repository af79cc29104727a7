#include "tests/bad_inputs/rows.h"

#include <cstdlib>
#include <map>
#include <regex>
#include <vector>

namespace lockstep::tests {
namespace {

/// A row's texts, and how many of them were asked for.
struct Texts {
  std::vector<std::string> lines;
  std::size_t next = 0;
};

std::map<int, Texts> read_texts() {
  std::map<int, Texts> texts;
  std::ifstream file(LOCKSTEP_TESTS_DIR "/bad_inputs/texts.txt");
  for (std::string line; std::getline(file, line);) {
    const std::size_t space = line.find(' ');
    texts[std::stoi(line.substr(0, space))].lines.push_back(line.substr(space + 1));
  }
  return texts;
}

}  // namespace

bool check_text(int number, std::string text, const std::string& hidden) {
  static std::map<int, Texts> texts = read_texts();
  static const std::regex folder(std::filesystem::temp_directory_path().string() + "/lockstep-test\\.\\w{6}");
  static const std::regex drawn("\\.\\w{6} cannot");
  static const std::regex place(" \\(at \\w+\\.\\w+:\\d+");
  for (std::size_t at = 0; !hidden.empty() && (at = text.find(hidden, at)) != std::string::npos; at += 2) {
    text.replace(at, hidden.size(), "{}");
  }
  text = std::regex_replace(std::regex_replace(text, folder, "{folder}"), place, " (at {place}");
  text = std::regex_replace(text, drawn, ".{drawn} cannot");
  if (const char* written = std::getenv("LOCKSTEP_WRITE_TEXTS"); written != nullptr) {
    std::ofstream(written, std::ios::app) << number << ' ' << text << '\n';
  }
  Texts& row = texts[number];
  const std::string expected = row.next < row.lines.size() ? row.lines[row.next] : "(texts.txt has no further text)";
  ++row.next;
  CHECK(text == expected);
  return text == expected;
}

}  // namespace lockstep::tests
