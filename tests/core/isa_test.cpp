#include <string>

#include <doctest/doctest.h>

#include <lockstep/backend/isa.h>
#include <lockstep/error.h>

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
