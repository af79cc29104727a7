#include "engine/cli/experiment.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/lockstep.h>

#include "engine/cli/choices.h"
#include "engine/cli/given_paths.h"
#include "engine/cli/named_options.h"

namespace lockstep::cli {
namespace {

using data::Dataset;

template <class To, class From>
data::HostTable converted(const data::HostTable& table, double scale = 1) {
  std::vector<To> values;
  for (const From value : data::elements<From>(table)) values.push_back(static_cast<To>(value * scale));
  return data::host_table(std::span<const To>(values), table.type.shape);
}

Dataset in_dtype(Dataset dataset, DType dtype) {
  if (dtype == DType::float64) dataset.x = converted<double, float>(dataset.x);
  return dataset;
}

template <class T>
data::HostTable host_table(const Array& array) {
  const std::vector<T> elements = array.to_vector<T>();
  return data::host_table(std::span<const T>(elements), array.shape());
}

struct SyntheticOptions {
  std::int64_t rows, classes, height, width, channels;
};

/// An image of noise for each class, and rows of them with more noise: drawn from a key alone.
Dataset synthetic(const SyntheticOptions& o, std::uint64_t draw) {
  const std::vector<Array> keys = {random::fold_in(random::key(7), 0), random::fold_in(random::key(7), draw)};
  const Array classes = random::normal(keys[0], {o.classes, o.height, o.width, o.channels});
  const Array labels = convert(remainder(arange(o.rows), o.classes), int32);
  // Piece by piece: all at once would take six times the memory of what is kept.
  const std::int64_t rows = std::min<std::int64_t>(o.rows, 256);
  const Shape shape{o.rows, o.height, o.width, o.channels};
  data::HostTable images{{float32, shape, {}}, std::vector<std::byte>(static_cast<std::size_t>(shape.size()) * 4)};
  auto to = data::elements<float>(images).begin();
  for (std::int64_t first = 0; first < o.rows; first += rows) {
    const std::int64_t kept = std::min(rows, o.rows - first);
    const Array noise = random::normal(keys[1], {rows, o.height, o.width, o.channels}, float32,
                                       {.cut = random::Cut{.dim = 0, .axes = {}, .block = first / rows}});
    const Array of_class = take(classes, slice_in_dim(labels, first, first + kept, 0), 0);
    const std::vector<float> piece = (0.25 * of_class + slice_in_dim(noise, 0, kept, 0)).to_vector<float>();
    to = std::copy(piece.begin(), piece.end(), to);
  }
  return {std::move(images), host_table<std::int32_t>(labels), o.classes};
}

DataSets load_synthetic(const TrainArguments&, NamedOptions& options) {
  SyntheticOptions o{.rows = options.count("rows", 4096),
                     .classes = options.count("classes", 10),
                     .height = options.count("height", 28),
                     .width = options.count("width", 28),
                     .channels = options.count("channels", 1)};
  const std::int64_t test_rows = options.count("test_rows", 512);
  Dataset train = synthetic(o, 1);
  o.rows = test_rows;
  return {std::move(train), synthetic(o, 2)};
}

/// Throws DataError where it is no folder.
const std::filesystem::path& checked_folder(const std::filesystem::path& folder) {
  const std::string why = not_a_folder(folder);
  if (why.empty()) return folder;
  throw DataError(fmt::format("[train] --data-dir {}: {}", folder.string(), why));
}

/// A folder that must be named. Throws ValueError.
std::filesystem::path folder_of(const TrainArguments& a, const char* what) {
  if (!a.data_dir.empty()) return checked_folder(a.data_dir);
  throw ValueError(fmt::format("[train] --data {} needs --data-dir, the folder of {}", a.data, what));
}

DataSets load_fashion_mnist(const TrainArguments& a, NamedOptions&) {
  data::FashionMnist sets = data::load_fashion_mnist(
      a.data_dir.empty() ? std::filesystem::path(LOCKSTEP_FASHION_MNIST_DIR) : checked_folder(a.data_dir));
  return {std::move(sets.train), std::move(sets.test)};
}

/// In [0, 1].
DataSets in_sets(data::Cifar sets) {
  for (Dataset* set : {&sets.train, &sets.test}) set->x = converted<float, std::uint8_t>(set->x, 1.0 / 255);
  return {std::move(sets.train), std::move(sets.test)};
}

/// Throws DataError naming the first label that is no class: it would make the loss NaN, or in int32 be another one.
template <class T>
void check_labels(const data::HostTable& labels, std::int64_t classes, const std::filesystem::path& file) {
  const std::span<const T> all = data::elements<T>(labels);
  const auto wrong = std::ranges::find_if(all, [&](T label) { return label < 0 || label >= classes; });
  if (wrong == all.end()) return;
  throw DataError(fmt::format(
      "{}: y[{}] is {}; expected classes from 0 to {}; give --set data.classes=N for N of them, or write other labels",
      file.string(), wrong - all.begin(), *wrong, classes - 1));
}

data::HostTable labels_of(const data::HostTable& labels, std::int64_t classes, const std::filesystem::path& file) {
  if (labels.type.dtype == int32) {
    check_labels<std::int32_t>(labels, classes, file);
    return labels;
  }
  if (labels.type.dtype == int64) {
    check_labels<std::int64_t>(labels, classes, file);
    return converted<std::int32_t, std::int64_t>(labels);
  }
  throw DataError(fmt::format("{}: y is {}; expected int32 or int64, the class of each row", file.string(),
                              to_string(labels.type)));
}

Dataset rows_in(const std::filesystem::path& file, std::int64_t classes) {
  data::NpzTables tables = data::read_npz(file);
  for (const char* name : {"x", "y"}) {
    if (tables.left_out().contains(name)) static_cast<void>(tables.at(name));
    if (!tables.contains(name))
      throw DataError(
          fmt::format("{} has no array '{}'; expected x, rows of inputs, and y, their classes", file.string(), name));
  }
  Dataset set{std::move(tables.at("x")), labels_of(tables.at("y"), classes, file), classes};
  if (set.x.type.dtype != float32) {
    throw DataError(fmt::format("{}: x is {}; expected float32", file.string(), to_string(set.x.type)));
  }
  if (set.x.type.shape.rank() == 0 || set.x.type.shape.dim(0) == 0 ||
      set.y.type.shape != Shape({set.x.type.shape.dim(0)})) {
    throw DataError(fmt::format("{}: x is {}, y {}; expected rows, at least one, and the class of each in y, [rows]",
                                file.string(), to_string(set.x.type), to_string(set.y.type)));
  }
  return set;
}

/// train.npz and test.npz, of x and y.
DataSets load_npz(const TrainArguments& a, NamedOptions& options) {
  const std::int64_t classes = options.count("classes", 10);
  const std::filesystem::path folder = folder_of(a, "train.npz and test.npz");
  DataSets sets{rows_in(folder / "train.npz", classes), rows_in(folder / "test.npz", classes)};
  const Shape train = sets.train.x.type.shape, test = sets.test.x.type.shape;
  if (test.with(0, train.dim(0)) != train) {
    throw DataError(fmt::format("{}: x is {} in train.npz and {} in test.npz; expected rows of one shape in both",
                                folder.string(), to_string(sets.train.x.type), to_string(sets.test.x.type)));
  }
  return sets;
}

struct DataEntry {
  std::string_view name;
  DataSets (*load)(const TrainArguments& arguments, NamedOptions& options);
  bool has_files = true;
};

constexpr DataEntry data_entries[] = {
    {"cifar10", [](const TrainArguments& a,
                   NamedOptions&) { return in_sets(data::load_cifar10(folder_of(a, "its binary batches"))); }},
    {"cifar100", [](const TrainArguments& a,
                    NamedOptions&) { return in_sets(data::load_cifar100(folder_of(a, "train.bin and test.bin"))); }},
    {"fashion-mnist", load_fashion_mnist},
    {"npz", load_npz},
    {"synthetic", load_synthetic, false},
};

}  // namespace

std::vector<std::string> data_names() {
  std::vector<std::string> names;
  for (const DataEntry& entry : data_entries) names.emplace_back(entry.name);
  return names;
}

std::string digest_of(const data::HostTable& table) {
  return sha256({reinterpret_cast<const char*>(table.bytes.data()), table.bytes.size()});
}

DataSets load(const TrainArguments& a) {
  const AtWork at_work(*world());
  const auto entry = std::ranges::find(data_entries, a.data, &DataEntry::name);
  if (entry == std::end(data_entries)) {
    throw ValueError(fmt::format("[train] no data set '{}'; known are {}", a.data, fmt::join(data_names(), ", ")));
  }
  if (!entry->has_files && !a.data_dir.empty()) {
    throw ValueError(
        fmt::format("[train] --data-dir {} has no effect: --data {} has no files; leave one of the two out",
                    a.data_dir.string(), a.data));
  }
  NamedOptions options("data", a.settings);
  DataSets sets = entry->load(a, options);
  options.check_all_taken("the data set '" + a.data + "'");
  const DType dtype = parse_dtype(a.dtype);
  const std::string digest = sha256(digest_of(sets.train.x) + digest_of(sets.train.y));
  return {in_dtype(std::move(sets.train), dtype), in_dtype(std::move(sets.test), dtype), digest};
}

namespace {

/// Whether the model itself computes in 16 bits.
bool is_mixed(const TrainArguments& a) { return a.precision.starts_with("mixed_"); }

}  // namespace

Model<Array, Array> model_of(const TrainArguments& a, const Dataset& set) {
  Model<Array, Array> model = chosen_model(a.model, set.classes, a.settings);
  return is_mixed(a) ? with_precision(model, a.precision) : model;
}

DataParallelOptions parallel_options(const TrainArguments& a) {
  DataParallelOptions options{.devices = {}, .shards = a.shards, .debug = {.nans = a.debug_nans}};
  if (!is_mixed(a)) options.precision = parse_precision(a.precision);
  // Gradients of float16 vanish below 6e-8, those of bfloat16 where float32's do.
  if (is_mixed(a) && PrecisionPolicy(a.precision).dtypes().compute == float16) options.loss_scale = LossScale{};
  if (a.precision != "float32" && parse_dtype(a.dtype) != DType::float32) {
    throw ValueError("[train] --precision " + a.precision + " is one of float32 models, and --dtype is " + a.dtype +
                     "; leave one of the two out");
  }
  if (a.devices > 0) options.devices = devices("cpu:0-" + std::to_string(a.devices - 1));
  return options;
}

LossFunction loss_of(const Model<Array, Array>& model, bool training) {
  return [model, training](const Tree& trainable, const Tree& state, const Batch& b) {
    auto [logits, next] = model.stateless_call(trainable, state, b.x, training, {.rows = b.weight});
    return WithAux{softmax_cross_entropy(logits, b.y, b.weight), next, {{"accuracy", accuracy(logits, b.y, b.weight)}}};
  };
}

std::function<std::map<std::string, double>(const Tree&)> validation_of(const Model<Array, Array>& model,
                                                                        const DataParallelOptions& options,
                                                                        std::shared_ptr<const Dataset> test,
                                                                        std::int64_t batch) {
  return [evaluation = EvaluateStep(loss_of(model, false), options), test = std::move(test), batch](const Tree& state) {
    return evaluate(evaluation, state, data::Loader(test, {.batch = batch, .shuffle = false, .drop_last = false}));
  };
}

data::Loader training_loader(const TrainArguments& a, const std::shared_ptr<const Dataset>& train) {
  if (a.batch > train->rows()) {
    throw ValueError(fmt::format("[train] --batch {} is more than the {} rows of the training set; give a smaller one",
                                 a.batch, train->rows()));
  }
  return {train, {.batch = a.batch, .seed = a.seed}};
}

std::int64_t steps_of(const TrainArguments& a, std::int64_t batches_per_epoch) {
  return a.steps > 0 ? a.steps : std::max<std::int64_t>(a.epochs, 1) * batches_per_epoch;
}

TrainStep step_of(const TrainArguments& a, const Model<Array, Array>& model, std::int64_t steps,
                  const DataParallelOptions& options) {
  return data_parallel(model, loss_of(model, true),
                       chosen_optimizer(a.optimizer, a.learning_rate, a.schedule, steps, a.settings), options);
}

TrainState initial_state(const Model<Array, Array>& model, const TrainStep& step, const TrainArguments& a,
                         const Dataset& train) {
  ArrayType example = train.x.type;
  example.shape = example.shape.with(0, 1);
  auto [trainable, non_trainable] = model.init(random::key(a.seed), example);
  return step.init(std::move(trainable), std::move(non_trainable));
}

Manifest asked_entries(const TrainArguments& a) {
  Manifest entries = {{"model", a.model},
                      {"data", a.data},
                      {"seed", std::to_string(a.seed)},
                      {"batch", std::to_string(a.batch)},
                      {"dtype", a.dtype},
                      {"precision", a.precision},
                      {"learning_rate", fmt::format("{}", a.learning_rate)},
                      {"optimizer", a.optimizer},
                      {"schedule", a.schedule}};
  entries.insert(a.settings.begin(), a.settings.end());
  return entries;
}

Manifest shape_of(const Dataset& set) {
  return {{"classes", std::to_string(set.classes)}, {"row_shape", to_string(set.x.type.shape.erase(0))}};
}

Manifest manifest_of(const TrainArguments& a, std::int64_t steps, std::int64_t shards, const Dataset& train,
                     const std::string& digest) {
  Manifest manifest = machine_description();
  manifest.merge(asked_entries(a));
  manifest.merge(shape_of(train));
  manifest["training_rows"] = std::to_string(train.rows());
  manifest["training_sha256"] = digest;
  manifest["shards"] = std::to_string(shards);
  // A schedule goes on to the last step, so bits depend on which that is.
  if (a.schedule != "constant") manifest["steps"] = std::to_string(steps);
  return manifest;
}

std::map<std::string, std::string> flags_of(const TrainArguments& a) {
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  const auto unless_zero = [&](const auto& value) { return value == 0 ? std::string() : text(value); };
  const auto if_set = [](bool value) { return value ? std::string("true") : std::string(); };
  return {{"model", a.model},
          {"data", a.data},
          {"data-dir", a.data_dir.empty() ? std::string() : std::filesystem::absolute(a.data_dir).string()},
          {"seed", text(a.seed)},
          {"shards", unless_zero(a.shards)},
          {"devices", unless_zero(a.devices)},
          {"batch", text(a.batch)},
          {"steps", unless_zero(a.steps)},
          {"epochs", unless_zero(a.epochs)},
          {"learning-rate", text(a.learning_rate)},
          {"optimizer", a.optimizer},
          {"schedule", a.schedule},
          {"dtype", a.dtype},
          {"precision", a.precision},
          {"log-every", text(a.log_every)},
          {"checkpoint-every", unless_zero(a.checkpoint_every)},
          {"collective-timeout", unless_zero(a.collective_timeout)},
          {"check-replicas", unless_zero(a.check_replicas)},
          {"keep-last", unless_zero(a.keep_last)},
          {"tensorboard", if_set(a.tensorboard)},
          {"trace-bits", if_set(a.trace_bits)},
          {"check", if_set(a.check)},
          {"debug-nans", if_set(a.debug_nans)}};
}

}  // namespace lockstep::cli
