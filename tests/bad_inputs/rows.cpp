#include "tests/bad_inputs/rows.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <regex>
#include <vector>

#include <cxxabi.h>

#include <lockstep/error.h>

namespace lockstep::tests {
namespace {

/// A row's texts, and how many of them were asked for.
struct Texts {
  std::vector<std::string> lines;
  std::size_t next = 0;
};

std::map<int, Texts> read_texts() {
  std::map<int, Texts> texts;
  for (const auto& entry : std::filesystem::directory_iterator(LOCKSTEP_TESTS_DIR "/bad_inputs/texts")) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      const std::size_t space = line.find(' ');
      texts[std::stoi(line.substr(0, space))].lines.push_back(line.substr(space + 1));
    }
  }
  return texts;
}

}  // namespace

namespace {

std::map<int, Texts>& all_texts() {
  static std::map<int, Texts> texts = read_texts();
  return texts;
}

int checked_texts = 0;

/// Says at the end how many bad inputs were tried.
struct Counts : doctest::IReporter {
  explicit Counts(const doctest::ContextOptions& /*options*/) {}
  void test_run_end(const doctest::TestRunStats& /*stats*/) override {
    std::size_t listed = 0;
    for (const auto& [number, row] : all_texts()) listed += row.lines.size();
    std::printf("bad inputs: %d texts checked, %zu in the list, of %zu rows\n", checked_texts, listed,
                all_texts().size());
  }
  void report_query(const doctest::QueryData& /*query*/) override {}
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData& /*test*/) override {}
  void test_case_reenter(const doctest::TestCaseData& /*test*/) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& /*stats*/) override {}
  void test_case_exception(const doctest::TestCaseException& /*error*/) override {}
  void subcase_start(const doctest::SubcaseSignature& /*subcase*/) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& /*assertion*/) override {}
  void log_message(const doctest::MessageData& /*message*/) override {}
  void test_case_skipped(const doctest::TestCaseData& /*test*/) override {}
};
REGISTER_LISTENER("bad_inputs", 1, Counts);

}  // namespace

bool check_text(int number, std::string text, const std::string& hidden) {
  ++checked_texts;
  static const std::regex folder(std::filesystem::temp_directory_path().string() + "/lockstep-test\\.\\w{6}");
  static const std::regex drawn("\\.\\w{6} cannot");
  static const std::regex place(" \\(at \\w+\\.\\w+:\\d+");
  for (std::size_t at = 0; !hidden.empty() && (at = text.find(hidden, at)) != std::string::npos; at += 2) {
    text.replace(at, hidden.size(), "{}");
  }
  text = std::regex_replace(std::regex_replace(text, folder, "{folder}"), place, " (at {place}");
  text = std::regex_replace(text, drawn, ".{drawn} cannot");
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.replace(at, 1, "\\n");
  if (const char* written = std::getenv("LOCKSTEP_WRITE_TEXTS"); written != nullptr) {
    std::ofstream(written, std::ios::app) << number << ' ' << text << '\n';
  }
  Texts& row = all_texts()[number];
  const std::string expected = row.next < row.lines.size() ? row.lines[row.next] : "(there is no further text)";
  ++row.next;
  CHECK(text == expected);
  return text == expected;
}

void all_refused(int number, std::initializer_list<std::function<void()>> calls) {
  CAPTURE(number);
  int place = -1;
  for (const std::function<void()>& call : calls) {
    ++place;
    CAPTURE(place);
    try {
      call();
    } catch (const Error& error) {
      int status = 0;
      char* const demangled = abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status);
      const std::string kind = demangled;
      std::free(demangled);
      check_text(number, kind.substr(kind.rfind(':') + 1) + ": " + error.what(), {});
      continue;
    } catch (const std::exception& error) {
      FAIL_CHECK("another kind of error was thrown: " << std::string(error.what()));
      continue;
    }
    FAIL_CHECK("no error was thrown");
  }
}

}  // namespace lockstep::tests
