// Correlation of predicted and true numbers.
#pragma once

#include <span>

namespace mtf {

/// Pearson's coefficient; 0 where one side is constant. Both have the same number of entries.
double pearson(std::span<const double> a, std::span<const double> b);
/// Spearman's coefficient: Pearson's of the ranks, where equal numbers share the mean of their ranks.
double spearman(std::span<const double> a, std::span<const double> b);

}  // namespace mtf
