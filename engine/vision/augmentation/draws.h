#pragma once

#include <cstdint>
#include <string>

#include <lockstep/vision/augmentation_colors.h>

// What augmentations draw, and what they may be asked to.
namespace lockstep::data {

/// Throws ValueError unless low <= value <= high.
void check_between(double value, double low, double high, const std::string& who, const std::string& what);
/// Throws ValueError unless low <= range.low <= range.high <= high.
void check_range(const Range& range, double low, double high, const std::string& who, const std::string& what);

double drawn(const Range& range, const RowKey& key, std::uint64_t counter = 0);
/// Whether what happens with probability p does. Throws ValueError unless that is 0 to 1.
bool happens(double p, const std::string& who, const RowKey& key, std::uint64_t counter = 0);
/// A standard normal number of two uniform ones.
double drawn_normal(const RowKey& key, std::uint64_t counter);
/// Of the gamma distribution with that shape, above 0.
double drawn_gamma(double shape, const RowKey& key);

}  // namespace lockstep::data
