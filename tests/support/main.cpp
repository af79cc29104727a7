// The main function of every test program: doctest's, and at the end the test cases that were left out. With
// LOCKSTEP_TEST_TIMES it prints what each case took.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <sys/resource.h>

#include "tests/support/skip.h"

namespace lockstep::tests {
namespace {

struct SkippedCase {
  std::string test_case;
  std::string reason;
  bool is_whole = false;  ///< It checked nothing.
};

/// CTest takes this exit code for a skipped entry.
constexpr int skip_return_code = 77;

std::mutex skipped_mutex;
std::vector<SkippedCase> skipped_cases;
int cases_run = 0;

/// Processor seconds of this process and of those that it has waited for.
double processor_seconds() {
  double sum = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    getrusage(who, &used);
    for (const timeval& time : {used.ru_utime, used.ru_stime}) {
      sum += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    }
  }
  return sum;
}

/// Tells cases that checked nothing from those of which a part was left out.
class SkipCounter : public doctest::IReporter {
 public:
  explicit SkipCounter(const doctest::ContextOptions&) {}
  void test_case_start(const doctest::TestCaseData& test_case) override {
    ++cases_run;
    before_ = skipped_cases.size();
    name_ = test_case.m_name;
    seconds_before_ = processor_seconds();
  }
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    const std::lock_guard lock(skipped_mutex);
    for (std::size_t i = before_; i < skipped_cases.size(); ++i) {
      skipped_cases[i].is_whole = stats.numAssertsCurrentTest == 0;
    }
    if (std::getenv("LOCKSTEP_TEST_TIMES") == nullptr) return;
    std::printf("%8.2f processor s, %8.2f s: %s\n", processor_seconds() - seconds_before_, stats.seconds, name_);
  }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  std::size_t before_ = 0;  ///< Skips of earlier cases.
  const char* name_ = "";
  double seconds_before_ = 0;
};
DOCTEST_REGISTER_LISTENER("skips", 1, SkipCounter);

/// Prints one line for each; returns whether no case checked anything.
bool print_skipped() {
  int whole = 0;
  for (const SkippedCase& skipped : skipped_cases) {
    std::printf("%s: %s: %s\n", skipped.is_whole ? "skipped" : "skipped in part", skipped.test_case.c_str(),
                skipped.reason.c_str());
    whole += skipped.is_whole ? 1 : 0;
  }
  if (!skipped_cases.empty()) {
    std::printf("%d of %d test cases were skipped, %d in part\n", whole, cases_run,
                static_cast<int>(skipped_cases.size()) - whole);
  }
  std::fflush(stdout);
  return whole > 0 && whole == cases_run;
}

}  // namespace

void skip(const std::string& reason) {
  const std::string name = doctest::getContextOptions()->currentTest->m_name;
  const std::lock_guard lock(skipped_mutex);
  for (const SkippedCase& skipped : skipped_cases) {
    if (skipped.test_case == name && skipped.reason == reason) return;
  }
  skipped_cases.push_back({name, reason});
}

}  // namespace lockstep::tests

int main(int count, char** arguments) {
  doctest::Context context(count, arguments);
  const int result = context.run();
  const bool did_nothing = lockstep::tests::print_skipped();
  return result == 0 && did_nothing ? lockstep::tests::skip_return_code : result;
}
