#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/model.h>
#include <lockstep/out_of_line.h>
#include <lockstep/tree.h>

namespace lockstep::models {

// Every model's options have `head`: false gives its features, what the head would be given, so that the model is a
// backbone in another one's scope: dense(s["out"], models::resnet(s["backbone"], x, {.head = false}), {.units = 3}).
// Without a head there are no variables of one, all others have their paths. docs/models.md has sources and sizes.

/// Options of `mlp`.
struct MlpOptions {
  std::int64_t classes = 10;
  std::int64_t units = 512;
  std::int64_t layers = 2;
  bool head = true;  ///< false: features [N, units].
};
/// Layers of dense `units` and relu, then dense `classes`, on flattened input.
LOCKSTEP_API Array mlp(const Scope& scope, const Array& x, const MlpOptions& options = {});

/// Options of `cnn`.
struct CnnOptions {
  std::int64_t classes = 10;
  double dropout = 0.25;
  bool head = true;  ///< false: features [N, 128], dropped out.
};
/// conv 32 - BatchNorm - relu - pool - conv 64 - BatchNorm - relu - pool - dense 128 - relu - dropout - dense
/// `classes`; x[N, H, W, C]. No bias before BatchNorm.
LOCKSTEP_API Array cnn(const Scope& scope, const Array& x, const CnnOptions& options = {});

/// Options of `lenet`.
struct LenetOptions {
  std::int64_t classes = 10;
  bool head = true;  ///< false: features [N, 84].
};
/// LeNet-5: conv 5x5 of 6 (same) and of 16 (valid), each with tanh and a mean of 2x2, dense 120 and 84 with tanh, dense
/// `classes`; x[N, H, W, C]. LeCun, Bottou, Bengio and Haffner 1998.
LOCKSTEP_API Array lenet(const Scope& scope, const Array& x, const LenetOptions& options = {});

/// Options of `resnet`, and of those of a number of layers.
struct ResnetOptions {
  std::int64_t classes = 10;
  lockstep::detail::OutOfLine<std::vector<std::int64_t>> filters = {
      16, 32, 64};  ///< Per stage; each but the first halves height and width.
  lockstep::detail::OutOfLine<std::vector<std::int64_t>> blocks = {3};  ///< Of each stage, or one number for all.
  bool bottleneck = false;    ///< Blocks of convolutions 1x1, 3x3 and 1x1, the last of 4 x filters; false: two of 3x3.
  bool large_images = false;  ///< The first convolution has 7x7 windows and step 2, then the largest of 3x3, step 2.
  bool head = true;           ///< false: features [N, filters of the last stage (x 4)].
};
/// Residual network: conv - BatchNorm - relu, the stages, mean over the image, dense; x[N, H, W, C]. A block that changes
/// shape has a 1x1 convolution with BatchNorm on its shortcut. The defaults are ResNet-20, with a projection. Throws
/// ValueError for another number of `blocks`. He et al. 2016.
LOCKSTEP_API Array resnet(const Scope& scope, const Array& x, const ResnetOptions& options = {});
/// Stages of 64, 128, 256 and 512 filters with two blocks each; `filters`, `blocks` and `bottleneck` are not read.
LOCKSTEP_API Array resnet18(const Scope& scope, const Array& x, const ResnetOptions& options = {});
/// The same filters in 3, 4, 6 and 3 bottlenecks, which step in their 3x3 convolution; likewise.
LOCKSTEP_API Array resnet50(const Scope& scope, const Array& x, const ResnetOptions& options = {});
/// The same in 3, 4, 23 and 3 bottlenecks.
LOCKSTEP_API Array resnet101(const Scope& scope, const Array& x, const ResnetOptions& options = {});
/// The same in 3, 8, 36 and 3 bottlenecks.
LOCKSTEP_API Array resnet152(const Scope& scope, const Array& x, const ResnetOptions& options = {});

/// Of the blocks of `vit`, `gpt` and `encoder`: features, how many blocks, heads of each.
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
  bool head = true;  ///< false: features [N, width].
};
/// Vision transformer on patches, positions learned, mean over the patches before the head; x[N, H, W, C]. Dosovitskiy
/// et al. 2021. Throws ShapeError where patches do not fit.
LOCKSTEP_API Array vit(const Scope& scope, const Array& x, const VitOptions& options = {});

/// Options of `gpt`.
struct GptOptions {
  std::int64_t vocabulary = 512;
  std::int64_t positions = 0;  ///< At most; 0: the T of `init`, which then is that of all calls.
  TransformerOptions blocks = {};
  DType dtype = float32;  ///< Of all variables.
  bool head = true;       ///< false: features [N, T, width] in place of logits.
};
/// Causal transformer: tokens, integers [N, T], to logits [N, T, vocabulary]; positions learned. Pre-norm blocks, gelu.
/// generation.h has the same with a cache. Throws ShapeError for more tokens than positions. Radford et al. 2019.
LOCKSTEP_API Array gpt(const Scope& scope, const Array& tokens, const GptOptions& options = {});

/// Options of `lstm_classifier`.
struct LstmClassifierOptions {
  std::int64_t classes = 10;
  std::int64_t units = 256;
  std::int64_t layers = 2;
  bool head = true;  ///< false: features [N, units].
};
/// LSTM layers and a dense head on the last step; x[N, T, ...], what is behind T flattened (an image is read by rows).
LOCKSTEP_API Array lstm_classifier(const Scope& scope, const Array& x, const LstmClassifierOptions& options = {});

/// Options of `encoder`; the defaults are BERT-base.
struct EncoderOptions {
  std::int64_t classes = 2;
  std::int64_t vocabulary = 30522;
  std::int64_t positions = 512;  ///< At most.
  std::int64_t types = 2;        ///< Of segments.
  TransformerOptions blocks = {.width = 768, .depth = 12, .heads = 12};
  DType dtype = float32;  ///< Of all variables.
  bool head = true;       ///< false: features [N, T, width], without the layer "pooler".
};
/// Bidirectional transformer: tokens, integers [N, T], of segments `types` (integers [N, T]; 0 without) and rows of
/// `lengths` int[N] (all T without), to [N, classes] from the first token: dense with tanh, then dense. Blocks normalise
/// behind their sums. Throws ShapeError where tokens do not fit. Devlin et al. 2019.
LOCKSTEP_API Array encoder(const Scope& scope, const Array& tokens, const EncoderOptions& options = {},
                           const std::optional<Array>& types = {}, const std::optional<Array>& lengths = {});

/// Options of `mixer`.
struct MixerOptions {
  std::int64_t classes = 10;
  std::int64_t patch = 4;  ///< Divides height and width.
  std::int64_t width = 128;
  std::int64_t depth = 8;
  std::int64_t token_units = 64;     ///< Of the layer that mixes patches,
  std::int64_t channel_units = 512;  ///< and of that which mixes features.
  bool head = true;                  ///< false: features [N, width].
};
/// MLP-Mixer on patches, x[N, H, W, C]. Throws ShapeError where patches do not fit. Tolstikhin et al. 2021.
LOCKSTEP_API Array mixer(const Scope& scope, const Array& x, const MixerOptions& options = {});

/// Options of `unet`.
struct UnetOptions {
  std::int64_t classes = 2;
  lockstep::detail::OutOfLine<std::vector<std::int64_t>> filters = {
      64, 128, 256, 512, 1024};  ///< From the whole image down to the smallest.
  bool head = true;              ///< false: features [N, H, W, first of the filters].
};
/// Two convolutions of 3x3 with BatchNorm and relu at each resolution on the way down and up, which meet; classes of each
/// place, [N, H, W, classes]. Throws ShapeError where height and width cannot be halved so often. Ronneberger, Fischer
/// and Brox 2015, with padding and BatchNorm.
LOCKSTEP_API Array unet(const Scope& scope, const Array& x, const UnetOptions& options = {});

/// Options of `autoencoder`.
struct AutoencoderOptions {
  lockstep::detail::OutOfLine<std::vector<std::int64_t>> units = {
      1000, 500, 250};  ///< Of the encoder's layers; the decoder's are the same, back.
  std::int64_t code = 30;
  bool head = true;  ///< false: features [N, code], without the decoder.
};
/// Dense layers with sigmoids to a linear code and back: logits of x, in its shape. Hinton and Salakhutdinov 2006.
LOCKSTEP_API Array autoencoder(const Scope& scope, const Array& x, const AutoencoderOptions& options = {});

/// Options of `vae`.
struct VaeOptions {
  lockstep::detail::OutOfLine<std::vector<std::int64_t>> filters = {
      32, 64};  ///< Of convolutions with step 2, and of the transposed ones back.
  std::int64_t units = 16;
  std::int64_t code = 2;
  bool head = true;  ///< false: no decoder.
};
/// What `vae` gives.
struct VaeResult {
  Array result;              ///< Logits of x, in its shape; without a head the features [N, code], which are `mean`.
  Array mean, log_variance;  ///< [N, code], of the code's distribution.
};
LOCKSTEP_TREE(VaeResult, result, mean, log_variance);
/// Variational autoencoder of images [N, H, W, C]. In training the code is drawn, else it is its mean. Throws ShapeError
/// where height and width cannot be halved so often. Kingma and Welling 2014; layers of Keras' example.
LOCKSTEP_API VaeResult vae(const Scope& scope, const Array& x, const VaeOptions& options = {});
/// The mean over rows of the divergence of the code's distribution from the standard normal one.
LOCKSTEP_API Array vae_divergence(const VaeResult& result);

/// Names `find` knows.
LOCKSTEP_API const std::vector<std::string_view>& names();
/// What `find` asks for a model's options: each by its name, with the default it has. This class gives the defaults; one
/// that derives from it gives what a program was asked for.
class LOCKSTEP_API OptionsByName {
 public:
  virtual ~OptionsByName();
  virtual double number(const std::string& name, double otherwise);
  virtual std::int64_t integer(const std::string& name, std::int64_t otherwise);
  virtual bool flag(const std::string& name, bool otherwise);
  virtual std::vector<std::int64_t> integers(const std::string& name, const std::vector<std::int64_t>& otherwise);
};
/// The model of that name with its defaults, of 10 classes. Throws ValueError listing the names.
LOCKSTEP_API Model<Array, Array> find(std::string_view name);
/// With so many classes and such options. What gives something else than classes is the backbone of a dense layer
/// "classes".
LOCKSTEP_API Model<Array, Array> find(std::string_view name, std::int64_t classes, OptionsByName& options);

}  // namespace lockstep::models
