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

/// `logs`: the logarithms of the factors of single times; the factor is at least exp(`least`).
Fit middle(std::vector<double> logs, double least) {
  const auto half = logs.begin() + static_cast<ptrdiff_t>(logs.size() / 2);
  std::nth_element(logs.begin(), half, logs.end());
  Fit fit{std::max(*half, least), 0};
  for (const double log : logs)
    fit.error += std::abs(log - fit.log_factor) / static_cast<double>(logs.size());
  return fit;
}

/// No time is less than at `peak` FLOPs in a second.
Fit fit_with(const std::vector<MeasuredProduct>& products, const ProductRates& rates, double peak) {
  std::vector<double> logs;
  for (const MeasuredProduct& p : products) {
    const double flops = 2 * (p.rows + rates.rows) * (p.columns + rates.columns) * (p.summed + rates.summed);
    logs.push_back(std::log(p.seconds / flops));
  }
  return middle(std::move(logs), -std::log(peak));
}

/// The fit of 1 / the share of forward or backward passes; no share is above 1.
Fit fit_share(const std::vector<MeasuredAttention>& attentions, double peak, const AttentionRates& rates,
              bool is_gradient) {
  std::vector<double> logs;
  for (const MeasuredAttention& a : attentions) {
    if (a.is_gradient == is_gradient)
      logs.push_back(
          std::log(peak * a.seconds / (a.flops + rates.softmax * a.logits + rates.query * a.queries)));
  }
  return logs.empty() ? Fit{} : middle(std::move(logs), 0);
}

}  // namespace

double fastest_rate(const std::vector<MeasuredProduct>& products) {
  double rate = 0;
  for (const MeasuredProduct& p : products)
    rate = std::max(rate, 2 * p.rows * p.columns * p.summed / p.seconds);
  return rate;
}

FittedProducts fit_products(const std::vector<MeasuredProduct>& products, std::optional<double> peak,
                            double largest) {
  constexpr double kFinest = 0.25;
  FittedProducts result;
  const double most = peak.value_or(std::numeric_limits<double>::infinity());
  Fit best = fit_with(products, result.rates, most);
  // Each of the three is moved by steps that become smaller, as long as that helps.
  for (double step = largest / 4; step >= kFinest;) {
    bool is_better = false;
    for (double ProductRates::*member :
         {&ProductRates::rows, &ProductRates::columns, &ProductRates::summed}) {
      for (const double change : {step, -step}) {
        ProductRates tried = result.rates;
        tried.*member = std::clamp(tried.*member + change, 0.0, largest);
        const Fit fit = fit_with(products, tried, most);
        if (fit.error + 1e-9 >= best.error) continue;
        best = fit;
        result.rates = tried;
        is_better = true;
      }
    }
    if (!is_better) step /= 2;
  }
  const double fitted = std::exp(-best.log_factor);
  result.flops = peak ? *peak : std::max(fitted, fastest_rate(products));
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
      tried.forward = std::exp(-forward.log_factor);
      tried.backward = std::exp(-backward.log_factor);
      if (forward.error + backward.error >= least) continue;
      least = forward.error + backward.error;
      result = tried;
    }
  }
  return result;
}

}  // namespace mtf
