#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/isa.h>

using lockstep::Isa;

namespace {

/// The variable set to a value, and back at the end.
class MaxIsa {
 public:
  explicit MaxIsa(const char* value) {
    if (const char* was = std::getenv("LOCKSTEP_MAX_ISA"); was != nullptr) was_ = was;
    setenv("LOCKSTEP_MAX_ISA", value, 1);
  }
  ~MaxIsa() {
    if (was_.empty()) {
      unsetenv("LOCKSTEP_MAX_ISA");
    } else {
      setenv("LOCKSTEP_MAX_ISA", was_.c_str(), 1);
    }
  }
  MaxIsa(const MaxIsa&) = delete;
  MaxIsa& operator=(const MaxIsa&) = delete;

 private:
  std::string was_;
};

}  // namespace

TEST_CASE("LOCKSTEP_MAX_ISA caps the instructions") {
  for (const Isa isa : {Isa::none, Isa::avx2, Isa::avx512}) {
    const MaxIsa set(std::string(lockstep::name(isa)).c_str());
    CHECK(lockstep::max_isa() == isa);
    CHECK(lockstep::usable_isa() <= isa);
  }
  const MaxIsa empty("");
  CHECK(lockstep::max_isa() == Isa::avx512);
}

TEST_CASE("an unknown name is refused") {
  const MaxIsa set("sse9");
  CHECK_THROWS_WITH_AS(lockstep::max_isa(),
                       "LOCKSTEP_MAX_ISA=sse9 is no set of instructions; expected avx512, avx2 or none. Unset it to "
                       "use all the processor has.",
                       lockstep::BackendError);
}
