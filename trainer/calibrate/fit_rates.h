// Fits rates of the cost model to measured times.
#pragma once

#include <optional>
#include <vector>

#include "trainer/config/hardware.h"

namespace mtf {

struct MeasuredProduct {
  double rows = 0, columns = 0, summed = 0;
  double seconds = 0;
};

/// FLOPs in a second of the fastest product.
double fastest_rate(const std::vector<MeasuredProduct>& products);

struct FittedProducts {
  double flops = 0;  ///< the peak: that which is known, or the rate of the fastest product
  ProductRates rates;
};

/// Minimises the sum of the relative errors, so that single disturbed measurements count little. There must be products.
/// `peak`: FLOPs in a second, where it is known. `largest`: of ProductRates::rows, columns and summed.
FittedProducts fit_products(const std::vector<MeasuredProduct>& products, std::optional<double> peak = {},
                            double largest = 64);

struct MeasuredAttention {
  double flops = 0;  ///< FLOPs of the logits that are computed
  double logits = 0;
  double queries = 0;  ///< the queries of all heads
  double seconds = 0;
  bool is_gradient = false;
};

/// `peak`: FLOPs in a second.
AttentionRates fit_attention(const std::vector<MeasuredAttention>& attentions, double peak);

}  // namespace mtf
