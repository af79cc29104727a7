#include "workloads.h"

#include <optional>
#include <utility>

#include "layer_workloads.h"

namespace lockstep::benches {

namespace {

Array tiny(Scope& scope, const Array& x) {
  const Array h = tanh(dense(scope["dense_0"], x, {.units = 32}));
  return dense(scope["head"], h, {.units = 10});
}

/// Two convolutions with pooling and two dense layers, without BatchNorm and dropout.
Array plain_cnn(Scope& scope, const Array& x) {
  const auto block = [&](std::string_view name, const Array& h, std::int64_t filters) {
    return max_pool2d(
        relu(conv2d(scope[name], h, {.filters = filters, .kernel_initializer = initializers::he_normal()})), {2, 2});
  };
  const Array h = flatten(block("conv_1", block("conv_0", x, 32), 64));
  return dense(scope["head"], relu(dense(scope["dense"], h, {.units = 128})), {.units = 10});
}

ArrayType images(std::int64_t rows, std::int64_t size, std::int64_t channels) {
  return {float32, {rows, size, size, channels}, {}};
}

Workload make(std::string_view name, Array (*model)(Scope&, const Array&), ArrayType x, bool adamw,
              std::int64_t labels = 10) {
  return {std::string(name), Model(model), std::move(x), labels, adamw};
}

}  // namespace

Shape Workload::label_shape() const { return is_integer(x.dtype) ? x.shape : Shape{rows()}; }

optim::GradientTransformation Workload::optimizer() const {
  return adamw ? optim::adamw(1e-3, 0.9, 0.999, 1e-8, 1e-2) : optim::sgd(0.05, 0.9);
}

TrainStep train_step(const Workload& workload, DataParallelOptions options) {
  const auto loss = [model = workload.model](const Tree& weights, const Tree& state, const Batch& b) {
    auto [logits, next] = model.stateless_call(weights, state, b.x, true, {.rows = b.weight});
    return WithAux{softmax_cross_entropy(logits, b.y, b.weight), next, {}};
  };
  return data_parallel(workload.model, loss, workload.optimizer(), std::move(options));
}

const std::vector<std::string_view>& workload_names() {
  static const std::vector<std::string_view> names = {"tiny",     "mlp", "cnn",  "resnet20",
                                                      "resnet18", "vit", "lstm", "gpt"};
  return names;
}

Workload find_workload(std::string_view name) {
  if (name == "tiny") return make(name, tiny, {float32, {16, 8}, {}}, true);
  if (name == "mlp") {
    return make(
        name, [](Scope& s, const Array& x) { return models::mlp(s, x); }, {float32, {128, 784}, {}}, true);
  }
  if (name == "cnn") return make(name, plain_cnn, images(64, 28, 1), false);
  if (name == "resnet20") {
    return make(
        name, [](Scope& s, const Array& x) { return models::resnet(s, x); }, images(64, 32, 3), false);
  }
  if (name == "resnet18") {
    return make(
        name, [](Scope& s, const Array& x) { return models::resnet18(s, x); }, images(32, 32, 3), false);
  }
  if (name == "vit") {
    return make(
        name, [](Scope& s, const Array& x) { return models::vit(s, x); }, images(32, 32, 3), true);
  }
  if (name == "lstm") {
    return make(
        name, [](Scope& s, const Array& x) { return models::lstm_classifier(s, x); }, {float32, {32, 64, 32}, {}},
        true);
  }
  if (name == "gpt") {
    return make(
        name, [](Scope& s, const Array& x) { return models::gpt(s, x); }, {int32, {8, 128}, {}}, true, 512);
  }
  if (std::optional<Workload> of_a_layer = find_layer_workload(name)) return *std::move(of_a_layer);
  std::string list;
  for (const auto* names : {&workload_names(), &layer_workload_names()}) {
    for (const std::string_view known : *names) list += (list.empty() ? "" : ", ") + std::string(known);
  }
  throw ValueError("no workload '" + std::string(name) + "'; known are " + list);
}

Tree draw_batches(const Workload& workload, std::uint64_t seed, std::int64_t ring) {
  const auto in_ring = [&](const Shape& shape) { return shape.insert(0, ring); };
  const Array keys = random::split(random::key(seed), 2);
  const Array x = is_integer(workload.x.dtype) ? random::randint(keys[0], in_ring(workload.x.shape), 0, workload.labels)
                                               : random::normal(keys[0], in_ring(workload.x.shape));
  const Array y = random::randint(keys[1], in_ring(workload.label_shape()), 0, workload.labels);
  return Tree::dict({{"x", Tree(x)}, {"y", Tree(y)}});
}

}  // namespace lockstep::benches
