#include <string>

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <lockstep/backend/isa.h>
#include <lockstep/error.h>

#include "tests/support/expect_error.h"
#include "tests/support/forked.h"
#include "tests/support/max_isa.h"

using lockstep::backend::Isa;
using lockstep::tests::MaxIsa;

TEST_CASE("LOCKSTEP_MAX_ISA caps the instructions") {
  for (const Isa isa : {Isa::none, Isa::avx2, Isa::avx512}) {
    const MaxIsa set{std::string(lockstep::backend::name(isa))};
    CHECK(lockstep::backend::max_isa() == isa);
    CHECK(lockstep::backend::usable_isa() <= isa);
  }
  const MaxIsa empty("");
  CHECK(lockstep::backend::max_isa() == Isa::avx512);
}

TEST_CASE("an unknown name is refused") {
  const MaxIsa set("sse9");
  CHECK_THROWS_WITH_AS(lockstep::backend::max_isa(),
                       "LOCKSTEP_MAX_ISA=sse9 is no set of instructions; expected avx512, avx2 or none. Unset it to "
                       "use all the processor has.",
                       lockstep::BackendError);
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST_CASE("a process without memory is not told that it may not execute what it has written") {
  CHECK(lockstep::backend::may_execute_written_pages());
  const int ended = lockstep::tests::forked([] {
    const rlimit nothing_more{4096, 4096};
    if (::setrlimit(RLIMIT_AS, &nothing_more) != 0) return 3;
    try {
      lockstep::backend::may_execute_written_pages();
    } catch (const lockstep::BackendError& error) {
      return lockstep::tests::contains(error.what(), "gives no page of memory to try machine code in: Cannot") ? 0 : 2;
    }
    return 1;
  });
  CHECK(ended == 0);
}
#endif
