// A program that links the component scientific.
#include <cstdio>

#include <lockstep/elementwise.h>
#include <lockstep/scientific.h>

int main() {
  const lockstep::Array square = lockstep::polymul(lockstep::array({1.0F, 1.0F}), lockstep::array({1.0F, 1.0F}));
  std::printf("scientific %g\n", lockstep::polyval(square, 2).item<double>());
}
