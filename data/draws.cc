#include "data/draws.h"

#include "engine/base/reproducible_math.h"

namespace mtf {
namespace {

/// Numbers of one example: 2^kDrawBits blocks of four.
constexpr int kDrawBits = 20;

}  // namespace

uint32_t Draws::bits() {
  if (drawn_ % 4 == 0)
    block_ = philox(philox_counter(RandomStream::kData, static_cast<uint64_t>(epoch_),
                                   (static_cast<uint64_t>(example_) << kDrawBits) + drawn_ / 4),
                    key_);
  return block_.words[drawn_++ % 4];
}

double Draws::normal() { return inverse_normal_cdf(uniform()); }

/// The logarithm of a number of the gamma distribution: G. Marsaglia, W. W. Tsang: A simple method for generating gamma
/// variables, 2000. Below 1 it is Gamma(alpha + 1) * u^(1 / alpha), which as a number would be 0 for a small alpha.
double Draws::log_gamma_variate(double alpha) {
  if (alpha < 1) {
    const double more = log_gamma_variate(alpha + 1);
    return more + reproducible::log(uniform()) / alpha;
  }
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal(), root = 1 + c * x, u = uniform();
    if (root <= 0) continue;
    const double v = root * root * root;
    if (reproducible::log(u) < 0.5 * x * x + d - d * v + d * reproducible::log(v))
      return reproducible::log(d) + reproducible::log(v);
  }
}

double Draws::beta(double alpha) {
  const double a = log_gamma_variate(alpha), b = log_gamma_variate(alpha);
  return 1 / (1 + reproducible::exp(b - a));
}

}  // namespace mtf
