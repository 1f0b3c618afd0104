#include "trainer/calibrate/fit_rates.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mtf {
namespace {

/// The logarithm of a factor that fits times best, and how far they are from it on average.
struct Fit {
  double log_factor = 0;
  double error = std::numeric_limits<double>::infinity();
};

/// `logs`: the logarithms of the factors of single times.
Fit middle(std::vector<double> logs) {
  const auto half = logs.begin() + static_cast<ptrdiff_t>(logs.size() / 2);
  std::nth_element(logs.begin(), half, logs.end());
  Fit fit{*half, 0};
  for (const double log : logs)
    fit.error += std::abs(log - fit.log_factor) / static_cast<double>(logs.size());
  return fit;
}

Fit fit_with(const std::vector<MeasuredProduct>& products, const ProductRates& rates) {
  std::vector<double> logs;
  for (const MeasuredProduct& p : products) {
    const double flops = 2 * (p.rows + rates.rows) * (p.columns + rates.columns) * (p.summed + rates.summed);
    logs.push_back(std::log(p.seconds / flops));
  }
  return middle(std::move(logs));
}

/// The fit of the share of forward or backward passes.
Fit fit_share(const std::vector<MeasuredAttention>& attentions, double peak, const AttentionRates& rates,
              bool is_gradient) {
  std::vector<double> logs;
  for (const MeasuredAttention& a : attentions) {
    if (a.is_gradient == is_gradient)
      logs.push_back(
          std::log((a.flops + rates.softmax * a.logits + rates.query * a.queries) / (peak * a.seconds)));
  }
  if (logs.empty()) return {};
  Fit fit = middle(logs);
  if (fit.log_factor <= 0) return fit;
  fit = {0, 0};  // no share is above 1
  for (const double log : logs) fit.error += std::abs(log) / static_cast<double>(logs.size());
  return fit;
}

}  // namespace

FittedProducts fit_products(const std::vector<MeasuredProduct>& products) {
  constexpr double kLargest = 64, kFinest = 0.25;
  FittedProducts result;
  Fit best = fit_with(products, result.rates);
  // Each of the three is moved by steps that become smaller, as long as that helps.
  for (double step = kLargest / 4; step >= kFinest;) {
    bool is_better = false;
    for (double ProductRates::*member :
         {&ProductRates::rows, &ProductRates::columns, &ProductRates::summed}) {
      for (const double change : {step, -step}) {
        ProductRates tried = result.rates;
        tried.*member = std::clamp(tried.*member + change, 0.0, kLargest);
        const Fit fit = fit_with(products, tried);
        if (fit.error + 1e-9 >= best.error) continue;
        best = fit;
        result.rates = tried;
        is_better = true;
      }
    }
    if (!is_better) step /= 2;
  }
  const double fitted = std::exp(-best.log_factor);
  result.flops = fitted;
  for (const MeasuredProduct& p : products)
    result.flops = std::max(result.flops, 2 * p.rows * p.columns * p.summed / p.seconds);
  result.rates.share = fitted / result.flops;
  return result;
}

AttentionRates fit_attention(const std::vector<MeasuredAttention>& attentions, double peak) {
  constexpr double kMostSoftmax = 512, kMostQuery = 64e3;
  AttentionRates result;
  double least = std::numeric_limits<double>::infinity();
  for (double softmax = 0; softmax <= kMostSoftmax; softmax += kMostSoftmax / 64) {
    for (double query = 0; query <= kMostQuery; query += kMostQuery / 128) {
      AttentionRates tried{.softmax = softmax, .query = query};
      const Fit forward = fit_share(attentions, peak, tried, false),
                backward = fit_share(attentions, peak, tried, true);
      tried.forward = std::exp(forward.log_factor);
      tried.backward = std::exp(backward.log_factor);
      if (forward.error + backward.error >= least) continue;
      least = forward.error + backward.error;
      result = tried;
    }
  }
  return result;
}

}  // namespace mtf
