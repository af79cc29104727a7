#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <lockstep/array.h>
#include <lockstep/callbacks.h>

#include "engine/trainer/monitor.h"

namespace lockstep::callbacks {
namespace {

constexpr std::size_t most_spikes = 1000;  // what is saved has one size

/// So many numbers with those of a list first, and how many those are.
template <class T, class List>
Tree saved_list(const List& list, std::size_t size) {
  std::vector<T> numbers(list.begin(), list.end());
  numbers.resize(size);
  return Tree::dict({{"numbers", Tree(array(numbers))}, {"count", Tree(array(std::ssize(list)))}});
}

template <class List, class T = typename List::value_type>
List restored_list(const Tree& saved) {
  const std::vector<T> numbers = saved.at("numbers").array().to_vector<T>();
  return List(numbers.begin(), numbers.begin() + saved.at("count").array().item<std::int64_t>());
}

}  // namespace

GradientNorms::GradientNorms(GradientNormsOptions options) : options_(std::move(options)) {
  trainer::check_count("gradient_norms", "every", options_.every, 1);
  trainer::check_count("gradient_norms", "window", static_cast<std::int64_t>(options_.window), 1);
}

void GradientNorms::reset() {
  norms_.clear();
  largest_ = 0;
  spikes_.clear();
}

double GradientNorms::mean() const {
  if (norms_.empty()) return 0;
  return std::accumulate(norms_.begin(), norms_.end(), 0.0) / static_cast<double>(norms_.size());
}

void GradientNorms::on_step(const StepReport& report, const Tree&, Requests&) {
  if (report.step % options_.every != 0) return;  // an epoch's end
  const double norm = trainer::monitored("gradient_norms", "grad_norm", report);
  const double before = mean();
  const bool is_finite = std::isfinite(norm);
  if (!is_finite || (norms_.size() == options_.window && norm > options_.spike * before)) {
    spikes_.push_back(report.step);
    if (spikes_.size() > most_spikes) spikes_.erase(spikes_.begin());
    if (options_.on_spike) options_.on_spike(report, norm, before);
  }
  if (!is_finite) return;  // in the window it would hide the spikes behind it, or make all norms one
  largest_ = std::max(largest_, norm);
  norms_.push_back(norm);
  if (norms_.size() > options_.window) norms_.erase(norms_.begin());
}

std::string GradientNorms::monitored() const { return "grad_norm"; }

std::string GradientNorms::name() const {
  return fmt::format("gradient_norms {} {} {}", options_.every, options_.window, options_.spike);
}

Tree GradientNorms::saved_state(const Tree&) const {
  return Tree::dict({{"norms", saved_list<double>(norms_, options_.window)},
                     {"largest", Tree(array(largest_))},
                     {"spikes", saved_list<std::int64_t>(spikes_, most_spikes)}});
}

void GradientNorms::restore(const Tree& saved) {
  norms_ = restored_list<std::vector<double>>(saved.at("norms"));
  largest_ = saved.at("largest").array().item<double>();
  spikes_ = restored_list<std::vector<std::int64_t>>(saved.at("spikes"));
}

GradientNorms::~GradientNorms() = default;

}  // namespace lockstep::callbacks
