#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/trainer.h>

namespace lockstep::detail {
namespace {

bool is_before(const data::Position& a, const data::Position& b) {
  return std::pair(a.epoch, a.row) < std::pair(b.epoch, b.row);
}

const Array* weight_of(const Tree& batch) {
  if (batch.kind() != Tree::Kind::dict || !batch.contains("weight") || !batch.at("weight").is_leaf()) return nullptr;
  const Array& weight = batch.at("weight").array();
  return weight.has_value() && weight.ndim() == 1 ? &weight : nullptr;
}

/// Rows of a batch; 0 where it has none.
std::int64_t all_rows(const Tree& batch) {
  for (const Array& leaf : batch.leaves()) {
    if (leaf.has_value() && leaf.ndim() > 0) return leaf.dim(0);
  }
  return 0;
}

/// Goes on to a place in batches that can only be drawn one after the other. Throws DataError where they end before.
void skip_to(const std::function<bool()>& skip, const std::function<data::Position()>& position,
             data::Position wanted) {
  while (is_before(position(), wanted)) {
    if (!skip()) break;
  }
  if (position() == wanted) return;
  throw DataError(fmt::format(
      "[fit] the batches do not come by epoch {} row {}, where the run was saved: they are at epoch {} row {}; give "
      "batches that begin as they did then",
      wanted.epoch, wanted.row, position().epoch, position().row));
}

/// Of which one is known ahead.
class DrawnBatches {
 public:
  explicit DrawnBatches(std::function<std::optional<Tree>()> draw) : draw_(std::move(draw)) {}
  std::optional<Tree> next() {
    if (!ahead_) ahead_ = draw_();  // an epoch's first
    if (!ahead_) return std::nullopt;
    Tree batch = std::move(*ahead_);
    ++position_.row;
    ahead_ = draw_();
    if (!ahead_) position_ = {position_.epoch + 1, 0};
    return batch;
  }
  data::Position position() const { return position_; }

 private:
  std::function<std::optional<Tree>()> draw_;
  std::optional<Tree> ahead_;
  data::Position position_;
};

class RangeBatches {
 public:
  explicit RangeBatches(RangeSteps steps) : steps_(std::move(steps)) {}
  bool skip() {
    if (!is_started_) start();
    if (steps_.is_at_end()) return false;
    steps_.advance();
    ++position_.row;
    if (steps_.is_at_end()) {
      position_ = {position_.epoch + 1, 0};
      if (steps_.starts_anew) start();
    }
    return true;
  }
  std::optional<Tree> next() {
    if (!is_started_) start();
    if (steps_.is_at_end()) return std::nullopt;
    Tree batch = steps_.batch();
    skip();
    return batch;
  }
  data::Position position() const { return position_; }
  void seek(data::Position at) {
    if (steps_.starts_anew) {
      start();
      position_ = {at.epoch, 0};
    }
    skip_to([&] { return skip(); }, [&] { return position_; }, at);
  }

 private:
  void start() {
    steps_.start();
    is_started_ = true;
  }

  RangeSteps steps_;
  data::Position position_;
  bool is_started_ = false;
};

}  // namespace

void seek_by_drawing(BatchSource& source) {
  source.seek = [next = source.next, position = source.position](data::Position at) {
    skip_to([&] { return next().has_value(); }, position, at);
  };
}

BatchSource drawn_batches(std::function<std::optional<Tree>()> draw) {
  const auto drawn = std::make_shared<DrawnBatches>(std::move(draw));
  BatchSource source;
  source.next = [drawn] { return drawn->next(); };
  source.position = [drawn] { return drawn->position(); };
  seek_by_drawing(source);
  return source;
}

BatchSource batches_of_range(RangeSteps steps) {
  const auto made = std::make_shared<RangeBatches>(std::move(steps));
  BatchSource source;
  source.next = [made] { return made->next(); };
  source.position = [made] { return made->position(); };
  source.seek = [made](data::Position at) { made->seek(at); };
  return source;
}

void for_one_epoch(const BatchSource& source, const std::function<void(const Tree& batch)>& visit) {
  const data::Position before = source.position();
  if (before != data::Position{}) source.seek({});
  const std::int64_t epoch = source.position().epoch;
  while (source.position().epoch == epoch) {
    const std::optional<Tree> batch = source.next();
    if (!batch) break;
    visit(*batch);
  }
  if (source.seeks_back) source.seek(before);
}

struct Means::Lists {
  std::map<std::string, Mean> means;
  std::map<std::string, std::pair<double, double>> sums;  ///< Times weight, and weight.
};

Means::Means() : lists_(Owned<Lists>::make()) {}
Means::~Means() = default;

void Means::add(const std::map<std::string, Weighted>& sums) {
  for (const auto& [name, sum] : sums) lists_->means[name].update(sum);
}

void Means::add(const Tree& values, double weight) {
  if (values.kind() == Tree::Kind::none) return;
  for (const auto& [name, value] : values.entries()) {
    const double number = value.is_leaf() ? value.array().item<double>() : from_tree<double>(value);
    auto& [sum, weights] = lists_->sums[name];
    sum += number * weight;
    weights += weight;
  }
}

std::map<std::string, double> Means::results() const {
  std::map<std::string, double> results;
  for (const auto& [name, mean] : lists_->means) results.emplace(name, mean.result());
  for (const auto& [name, sum] : lists_->sums) results.emplace(name, sum.second == 0 ? 0 : sum.first / sum.second);
  return results;
}

double rows_of(const Tree& batch) {
  if (const Array* weight = weight_of(batch)) {
    double rows = 0;
    for (const double one : convert(*weight, float64).to_vector<double>()) rows += one;
    return rows;
  }
  return static_cast<double>(std::max<std::int64_t>(all_rows(batch), 1));
}

Tree without_padding(const Tree& result, const Tree& batch) {
  const Array* weight = weight_of(batch);
  if (weight == nullptr) return result;
  const std::vector<double> weights = convert(*weight, float64).to_vector<double>();
  std::int64_t rows = static_cast<std::int64_t>(weights.size());
  while (rows > 0 && weights[static_cast<std::size_t>(rows) - 1] == 0) --rows;
  if (rows == static_cast<std::int64_t>(weights.size())) return result;
  return map(
      [&](const Array& leaf) {
        if (leaf.ndim() == 0 || leaf.dim(0) != weight->dim(0)) {
          throw DataError(fmt::format("[predict] a batch of {} rows gave {}; expected one result a row", weight->dim(0),
                                      to_string(leaf.type())));
        }
        std::vector<std::int64_t> first(static_cast<std::size_t>(leaf.ndim())), last = leaf.shape().to_vector();
        last[0] = rows;
        return slice(leaf, first, last, std::vector<std::int64_t>(first.size(), 1));
      },
      result);
}

Tree joined_rows(const std::vector<Tree>& results) {
  if (results.empty()) throw DataError("[predict] there is no batch; give at least one");
  if (results.size() == 1) return results.front();
  std::vector<std::vector<Array>> columns;
  for (const Tree& result : results) {
    if (!result.same_structure(results.front())) {
      throw DataError(fmt::format("[predict] batches gave {} and {}; expected one structure",
                                  to_string(results.front()), to_string(result)));
    }
    columns.push_back(result.leaves());
  }
  std::vector<Array> joined;
  for (std::size_t leaf = 0; leaf < columns.front().size(); ++leaf) {
    std::vector<Array> parts;
    for (const std::vector<Array>& column : columns) parts.push_back(column[leaf]);
    joined.push_back(concatenate(parts, 0));
  }
  return results.front().unflatten(std::move(joined));
}

}  // namespace lockstep::detail
