// A program that links the component vision.
#include <cstdio>

#include <lockstep/vision.h>

int main() {
  const lockstep::Array iou = lockstep::bounding_boxes::compute_iou(lockstep::array({{0.0F, 0.0F, 2.0F, 2.0F}}),
                                                                    lockstep::array({{0.0F, 0.0F, 2.0F, 1.0F}}));
  std::printf("vision %g\n", iou.item<double>());
}
