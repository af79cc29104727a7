#pragma once

#include <cstdint>
#include <string>

#include <lockstep/activations.h>
#include <lockstep/layers.h>
#include <lockstep/vision/models.h>

// What classifiers of images have in common: layers without a bias under Keras' names.
namespace lockstep::models {

/// Throws ShapeError naming the model unless x are images [N, H, W, C] of at least so many pixels either way.
void check_image(const std::string& model, const Array& x, std::int64_t least = 1);

/// What a convolution is made of.
struct Convolution {
  std::int64_t filters = 0;  ///< Of a depthwise one not read.
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  Padding padding = Padding::same;
  bool use_bias = false;
};
Array convolved(const Scope& scope, const std::string& name, const Array& x, const Convolution& how);
Array convolved_by_channel(const Scope& scope, const std::string& name, const Array& x, const Convolution& how);

/// The means (the largest) of windows of 3x3, one at each place (one at every other place of what they fit in).
Array means_of_neighbours(const Array& x);
Array largest_of_neighbours(const Array& x);

/// The mean over the image, then the layer "head", if there is one.
Array classes_of(const Scope& scope, const Array& x, std::int64_t classes, bool head);
/// The layer "head", if there is one.
Array classes_of_features(const Scope& scope, const Array& features, std::int64_t classes, bool head);

/// Filters as a multiple of 8, by which no more than a tenth of them is lost.
std::int64_t multiple_of_8(double filters);

/// x times a gate of each channel, made of the channels' means by two products at one place with biases, layers
/// "<name><first>" of so many filters and "<name><second>".
struct Excitation {
  std::string first, second;
  std::int64_t filters = 0;
  Array (*inside)(const ArrayOperand&) = relu;
  Array (*gate)(const ArrayOperand&) = sigmoid;
};
Array excited(const Scope& scope, const Array& x, const Excitation& how);

/// Whole rows are left out in training at that rate, the others scaled. Huang et al. 2016.
Array with_rows_dropped(const Scope& scope, const Array& x, double rate);

}  // namespace lockstep::models
