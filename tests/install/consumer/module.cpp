// A product, which oneDNN computes, and singular values, which ATen does: both libraries are loaded for them.

#include <iostream>

#include <lockstep/lockstep.h>

int main() {
  const lockstep::Array x = lockstep::array({{3.0F, 0.0F}, {0.0F, 2.0F}});
  std::cout << lockstep::sum(lockstep::matmul(x, x)).item<float>() << "\n";
  try {
    std::cout << lockstep::sum(lockstep::linalg::svdvals(x)).item<float>() << "\n";
  } catch (const lockstep::BackendError& error) {
    std::cout << error.what() << "\n";
  }
}
