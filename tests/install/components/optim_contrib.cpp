// A program that links the component optim_contrib.
#include <cstdio>

#include <lockstep/optim_contrib.h>

int main() {
  const lockstep::Array projected = lockstep::projection_simplex(lockstep::array({3.0F}));
  std::printf("optim_contrib %g\n", projected.item<double>());
}
