#include <iostream>

#include <ATen/Functions.h>

#include <lockstep/aten.h>
#include <lockstep/lockstep.h>

int main() {
  const lockstep::Array x = lockstep::array({1.0F, 2.0F, 3.0F});
  const lockstep::Array twice = lockstep::from_aten(at::add(lockstep::to_aten(x), lockstep::to_aten(x)));
  std::cout << at::sum(lockstep::to_aten(x)).item<float>() << " " << lockstep::sum(twice).item<float>() / 2 << "\n";
}
