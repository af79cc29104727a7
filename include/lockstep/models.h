#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/model.h>

namespace lockstep::models {

/// Dense 512 - relu - dense 512 - relu - dense `classes` on flattened input.
LOCKSTEP_API Array mlp(const Scope& scope, const Array& x, std::int64_t classes = 10);

/// Options of `cnn`.
struct CnnOptions {
  std::int64_t classes = 10;
  double dropout = 0.25;
};
/// conv 32 - BatchNorm - relu - pool - conv 64 - BatchNorm - relu - pool - dense 128 - relu - dropout - dense
/// `classes`; x[N, H, W, C]. No bias before BatchNorm.
LOCKSTEP_API Array cnn(const Scope& scope, const Array& x, const CnnOptions& options = {});

/// Options of `resnet`.
struct ResnetOptions {
  std::int64_t classes = 10;
  std::vector<std::int64_t> filters = {16, 32, 64};  ///< Per stage; each but the first halves height and width.
  std::int64_t blocks = 3;                           ///< Per stage, two convolutions each.
};
/// Residual network for small images: conv - BatchNorm - relu, the stages, mean over the image, dense; x[N, H, W, C]. A
/// block that changes shape has a 1x1 convolution with BatchNorm on its shortcut. The defaults are ResNet-20, with a
/// projection. He et al. 2016.
LOCKSTEP_API Array resnet(const Scope& scope, const Array& x, const ResnetOptions& options = {});
/// Stages of 64, 128, 256 and 512 filters with two blocks each, on the 3x3 stem of small images.
LOCKSTEP_API Array resnet18(const Scope& scope, const Array& x, std::int64_t classes = 10);

/// Of the blocks of `vit` and `gpt`: features, how many blocks, heads of each.
struct TransformerOptions {
  std::int64_t width = 256;
  std::int64_t depth = 4;
  std::int64_t heads = 4;
  bool joint_projection = true;  ///< As MultiHeadAttentionOptions::joint_projection.
};
/// Options of `vit`.
struct VitOptions {
  std::int64_t classes = 10;
  std::int64_t patch = 4;  ///< Divides height and width.
  TransformerOptions blocks = {.width = 192, .depth = 6, .heads = 3};
};
/// Vision transformer on patches, positions learned, mean over the patches before the head; x[N, H, W, C]. Dosovitskiy
/// et al. 2021. Throws ShapeError where patches do not fit.
LOCKSTEP_API Array vit(const Scope& scope, const Array& x, const VitOptions& options = {});

/// Options of `gpt`.
struct GptOptions {
  std::int64_t vocabulary = 512;
  std::int64_t positions = 0;  ///< At most; 0: the T of `init`, which then is that of all calls.
  TransformerOptions blocks = {};
  bool head = true;  ///< false: features [N, T, width] in place of logits.
};
/// Causal transformer: tokens, integers [N, T], to logits [N, T, vocabulary]; positions learned. Pre-norm blocks, gelu.
/// generation.h has the same with a cache. Throws ShapeError for more tokens than positions. Radford et al. 2019.
LOCKSTEP_API Array gpt(const Scope& scope, const Array& tokens, const GptOptions& options = {});

/// Options of `lstm_classifier`.
struct LstmClassifierOptions {
  std::int64_t classes = 10;
  std::int64_t units = 256;
  std::int64_t layers = 2;
};
/// LSTM layers and a dense head on the last step; x[N, T, ...], what is behind T flattened (an image is read by rows).
LOCKSTEP_API Array lstm_classifier(const Scope& scope, const Array& x, const LstmClassifierOptions& options = {});

/// Names `find` knows.
LOCKSTEP_API const std::vector<std::string_view>& names();
/// The model of that name with its defaults. Throws ValueError listing the names.
LOCKSTEP_API Model<Array, Array> find(std::string_view name);

}  // namespace lockstep::models
