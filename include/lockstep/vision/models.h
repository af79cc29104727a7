#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/model.h>
#include <lockstep/models.h>

// Classifiers of images [N, H, W, C] under the names and sizes that the literature gives them, as keras.applications has
// them: scopes are called as Keras' layers, so that weights saved by Keras' names are theirs, but for the last layer,
// which is always "head". What Keras' models do to pixels first (rescaling, normalization) is the caller's. All give
// logits [N, classes], or without a head the features [N, F] of which they are made, and throw ShapeError for what is no
// image, or too small a one. docs/models.md has the sizes.
namespace lockstep::models {

/// Options of `resnet_v2`.
struct ResnetV2Options {
  std::int64_t classes = 10;
  std::vector<std::int64_t> blocks = {3, 4, 6, 3};  ///< Bottlenecks of each stage, of 64, 128, ... filters.
  bool head = true;
};
/// Residual network that normalises before it convolves; each stage but the last halves the image in its last block. He et
/// al. 2016, "Identity mappings".
LOCKSTEP_API Array resnet_v2(const Scope& scope, const Array& x, const ResnetV2Options& options = {});

/// Options of `vgg`.
struct VggOptions {
  std::int64_t classes = 10;
  std::vector<std::int64_t> blocks = {2, 2, 3, 3, 3};  ///< Convolutions before each halving; {2, 2, 4, 4, 4}: VGG-19.
  std::int64_t units = 4096;                           ///< Of the two dense layers before the head.
  bool head = true;
};
/// Convolutions of 3x3 with 64 filters, twice as many after each halving, 512 at most; the size of the image is that of all
/// calls. Simonyan and Zisserman 2015.
LOCKSTEP_API Array vgg(const Scope& scope, const Array& x, const VggOptions& options = {});

/// Options of `mobilenet` and `mobilenet_v2`.
struct MobilenetOptions {
  std::int64_t classes = 10;
  double width = 1;        ///< Filters are so many times those of the paper (Keras' alpha).
  double dropout = 0.001;  ///< Of the features of `mobilenet`; mobilenet_v2 has none.
  bool head = true;
};
/// Depthwise and pointwise convolutions in turn. Howard et al. 2017.
LOCKSTEP_API Array mobilenet(const Scope& scope, const Array& x, const MobilenetOptions& options = {});
/// Residual blocks that are widest inside, 6 times. Sandler et al. 2018.
LOCKSTEP_API Array mobilenet_v2(const Scope& scope, const Array& x, const MobilenetOptions& options = {});

/// Options of `mobilenet_v3`.
struct MobilenetV3Options {
  std::int64_t classes = 10;
  bool large = true;  ///< false: MobileNetV3-Small.
  double width = 1;   ///< As of mobilenet.
  double dropout = 0.2;
  bool head = true;
};
/// Those blocks with squeeze-and-excitation and hard swish. Howard et al. 2019.
LOCKSTEP_API Array mobilenet_v3(const Scope& scope, const Array& x, const MobilenetV3Options& options = {});

/// Options of `densenet`.
struct DensenetOptions {
  std::int64_t classes = 10;
  /// Of the four stages: DenseNet-121; {6, 12, 32, 32} is DenseNet-169, {6, 12, 48, 32} DenseNet-201.
  std::vector<std::int64_t> blocks = {6, 12, 24, 16};
  std::int64_t growth = 32;  ///< Channels that a block adds to those before.
  bool head = true;
};
/// Each block sees the results of all before. Huang et al. 2017.
LOCKSTEP_API Array densenet(const Scope& scope, const Array& x, const DensenetOptions& options = {});

/// Options of `efficientnet`.
struct EfficientnetOptions {
  std::int64_t classes = 10;
  int size = 0;               ///< B0 to B7.
  double drop_connect = 0.2;  ///< Rate at which the last block leaves itself out of a row; those before in proportion.
  bool head = true;
};
/// Residual blocks with squeeze-and-excitation, scaled in depth and width together; features are dropped out as the paper
/// does for each size. Tan and Le 2019.
LOCKSTEP_API Array efficientnet(const Scope& scope, const Array& x, const EfficientnetOptions& options = {});

/// Sizes of `efficientnet_v2`.
enum class EfficientnetV2Size : std::uint8_t { b0, b1, b2, b3, s, m, l };
/// Options of `efficientnet_v2`.
struct EfficientnetV2Options {
  std::int64_t classes = 10;
  EfficientnetV2Size size = EfficientnetV2Size::b0;
  double dropout = 0.2;       ///< Of the features.
  double drop_connect = 0.2;  ///< As of efficientnet.
  bool head = true;
};
/// The first stages convolve once in place of twice. Tan and Le 2021.
LOCKSTEP_API Array efficientnet_v2(const Scope& scope, const Array& x, const EfficientnetV2Options& options = {});

/// Sizes of `convnext`.
enum class ConvnextSize : std::uint8_t { tiny, small, base, large, xlarge };
/// Options of `convnext`.
struct ConvnextOptions {
  std::int64_t classes = 10;
  ConvnextSize size = ConvnextSize::tiny;
  std::vector<std::int64_t> depths = {};  ///< Blocks of the four stages, in place of the size's,
  std::vector<std::int64_t> widths = {};  ///< and their channels.
  double drop_path = 0;                   ///< As drop_connect of efficientnet.
  double layer_scale = 1e-6;              ///< What a block's result counts at first.
  bool head = true;
};
/// Depthwise convolutions of 7x7, then two dense layers with gelu. Liu et al. 2022.
LOCKSTEP_API Array convnext(const Scope& scope, const Array& x, const ConvnextOptions& options = {});

/// Options of `xception`.
struct XceptionOptions {
  std::int64_t classes = 10;
  std::int64_t middle = 8;  ///< Blocks between the way in and the way out.
  bool head = true;
};
/// Separable convolutions with shortcuts; images of at least 71 x 71. Chollet 2017.
LOCKSTEP_API Array xception(const Scope& scope, const Array& x, const XceptionOptions& options = {});

/// Options of `inception_v3`.
struct InceptionV3Options {
  std::int64_t classes = 10;
  bool head = true;
};
/// Branches of several windows, joined; images of at least 75 x 75. Szegedy et al. 2016.
LOCKSTEP_API Array inception_v3(const Scope& scope, const Array& x, const InceptionV3Options& options = {});

/// Options of `inception_resnet_v2`.
struct InceptionResnetV2Options {
  std::int64_t classes = 10;
  bool head = true;
};
/// The same branches as residuals; images of at least 75 x 75. Szegedy et al. 2017.
LOCKSTEP_API Array inception_resnet_v2(const Scope& scope, const Array& x,
                                       const InceptionResnetV2Options& options = {});

/// Options of `nasnet`, NASNet-A. As they are: the mobile one; {.filters = 4032, .blocks = 6, .stem_filters = 96,
/// .skip_reduction = true}: the large one.
struct NasnetOptions {
  std::int64_t classes = 10;
  std::int64_t filters = 1056;  ///< Of the features; a multiple of 96.
  std::int64_t blocks = 4;      ///< Normal cells of each of the three stages.
  std::int64_t stem_filters = 32;
  bool skip_reduction =
      false;  ///< Whether the cell behind a reduction reads what came before the reduction's own input.
  bool head = true;
};
/// Cells that a search found; images of at least 32 x 32. Throws ValueError for other numbers of filters or blocks. Zoph
/// et al. 2018.
LOCKSTEP_API Array nasnet(const Scope& scope, const Array& x, const NasnetOptions& options = {});

/// Names that `find_image_classifier` knows.
LOCKSTEP_API const std::vector<std::string_view>& image_classifier_names();
/// The classifier of that name with its defaults, of 10 classes. Throws ValueError listing the names.
LOCKSTEP_API Model<Array, Array> find_image_classifier(std::string_view name);
/// With so many classes, and options as `find` asks for them.
LOCKSTEP_API Model<Array, Array> find_image_classifier(std::string_view name, std::int64_t classes,
                                                       OptionsByName& options);

}  // namespace lockstep::models
