#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include <lockstep/error.h>
#include <lockstep/sources.h>

#include "engine/data/gathered_rows.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t thousandths = 1000;

/// Whole numbers in the ratio of the weights, by the largest remainder, in lowest terms.
std::vector<std::int64_t> counts_of(const std::vector<double>& weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int64_t> counts;
  std::vector<std::pair<double, std::size_t>> remainders;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    const double share = weights[k] / total * thousandths;
    counts.push_back(static_cast<std::int64_t>(share));
    remainders.emplace_back(static_cast<double>(counts.back()) - share, k);
  }
  std::sort(remainders.begin(), remainders.end());
  std::int64_t left = thousandths - std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  for (const auto& [remainder, k] : remainders) {
    if (left-- <= 0) break;
    ++counts[k];
  }
  std::int64_t divisor = 0;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    if (counts[k] == 0) {
      throw ValueError("[mix] weight " + std::to_string(k) + " is " + std::to_string(weights[k]) + " of " +
                       std::to_string(total) + "; it must be at least a thousandth of all");
    }
    divisor = std::gcd(divisor, counts[k]);
  }
  for (std::int64_t& count : counts) count /= divisor;
  return counts;
}

class Mixed final : public Source {
 public:
  Mixed(std::vector<SourcePtr> sources, std::vector<std::int64_t> counts, std::uint64_t seed, std::int64_t rows)
      : sources_(std::move(sources)), counts_(std::move(counts)), seed_(seed), rows_(rows) {
    run_ = std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
  }
  std::int64_t rows() const override { return rows_; }
  Row row(std::int64_t i, const RowKey& key) const override {
    if (i < 0 || i >= rows_) {
      throw DataError("[mix] row " + std::to_string(i) + " of a source of " + std::to_string(rows_) + " rows");
    }
    const auto [source, place] = found(i);
    return source->row(place, key);
  }
  void expect(std::int64_t i) const override {
    if (i < 0 || i >= rows_) return;
    const auto [source, place] = found(i);
    source->expect(place);
  }

 private:
  /// Run i / run_ has a random order of its own; which row of its source a place in it gets follows by counting.
  std::pair<const Source*, std::int64_t> found(std::int64_t i) const {
    const std::int64_t run = i / run_;
    std::int64_t place = Permutation(seed_, static_cast<std::uint64_t>(run), run_)(i % run_);
    std::size_t k = 0;
    while (place >= counts_[k]) place -= counts_[k++];
    const std::int64_t nth = run * counts_[k] + place;
    const std::int64_t rows = sources_[k]->rows();
    // A seed of its own for each source; its passes are the epochs of that.
    const std::uint64_t seed = RowKey(seed_, 0, static_cast<std::int64_t>(k)).bits();
    const Permutation order(seed, static_cast<std::uint64_t>(nth / rows), rows);
    return {sources_[k].get(), order(nth % rows)};
  }

  std::vector<SourcePtr> sources_;
  std::vector<std::int64_t> counts_;
  std::uint64_t seed_;
  std::int64_t rows_;
  std::int64_t run_ = 0;
};

}  // namespace

SourcePtr mix(std::vector<SourcePtr> sources, MixOptions options) {
  if (sources.empty()) throw DataError("[mix] no source is given; give at least one");
  for (const SourcePtr& source : sources) check_source(source, "mix");
  if (options.weights.empty()) options.weights.assign(sources.size(), 1.0);
  if (options.weights.size() != sources.size()) {
    throw ValueError("[mix] " + std::to_string(options.weights.size()) + " weights for " +
                     std::to_string(sources.size()) + " sources; give one a source, or none");
  }
  for (std::size_t k = 0; k < options.weights.size(); ++k) {
    if (std::isfinite(options.weights[k]) && options.weights[k] > 0) continue;
    throw ValueError("[mix] weight " + std::to_string(k) + " is " + std::to_string(options.weights[k]) +
                     "; weights are positive numbers");
  }
  if (options.rows < 0) throw ValueError("[mix] rows is " + std::to_string(options.rows) + "; give 0 or more");
  std::vector<std::int64_t> counts = counts_of(options.weights);
  if (options.rows == 0) {
    std::int64_t runs = INT64_MAX;
    for (std::size_t k = 0; k < sources.size(); ++k) {
      runs = std::min(runs, sources[k]->rows() / counts[k]);
      if (runs > 0) continue;
      throw DataError("[mix] source " + std::to_string(k) + " has " + std::to_string(sources[k]->rows()) +
                      " rows, and a run of the mixture takes " + std::to_string(counts[k]) +
                      " of them; say how many `rows` to draw, or take weights of a simpler ratio");
    }
    options.rows = runs * std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  }
  return std::make_shared<Mixed>(std::move(sources), std::move(counts), options.seed, options.rows);
}

}  // namespace lockstep::data
