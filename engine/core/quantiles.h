// Inverses of distribution functions, for random numbers. Every host and device computes the same bits: these
// functions consist of additions, multiplications, divisions and square roots alone. Files that call them are
// compiled without contraction of products and sums (a GPU's with --fmad=false, the host's for plain x86-64)
// and without reassociation.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace mtf {

/// Evaluates a polynomial; the constant term comes first.
constexpr double polynomial(double, double constant) { return constant; }
template <class... Coefficients>
constexpr double polynomial(double x, double constant, Coefficients... rest) {
  return polynomial(x, rest...) * x + constant;
}

/// log(x) for a positive normal x, with an error below 1 unit in the last place. x = 2^e (1 + f), where
/// sqrt(1/2) <= 1 + f < sqrt(2), and log(1 + f) = 2 artanh(s) = f - s (f - r), where s = f / (2 + f),
/// r = 2 s^2 / 3 + 2 s^4 / 5 + ... + 2 s^20 / 21, and s f = f^2 / 2 - s f^2 / 2.
constexpr double sampling_log(double x) {
  constexpr uint64_t kRootOfHalf = 0x3fe6a09e667f3bcd;
  // The exponent steps at sqrt(1/2) instead of 1.
  const uint64_t shifted = std::bit_cast<uint64_t>(x) - kRootOfHalf;
  const auto e = static_cast<double>(static_cast<int64_t>(shifted) >> 52);
  const double f = std::bit_cast<double>((shifted & 0x000fffffffffffff) + kRootOfHalf) - 1;
  const double s = f / (2 + f), square = s * s;
  // Terms with even and with odd powers of `square`, which processors compute side by side.
  const double fourth = square * square;
  const double odd =
      (((2.0 / 19 * fourth + 2.0 / 15) * fourth + 2.0 / 11) * fourth + 2.0 / 7) * fourth + 2.0 / 3;
  const double even =
      (((2.0 / 21 * fourth + 2.0 / 17) * fourth + 2.0 / 13) * fourth + 2.0 / 9) * fourth + 2.0 / 5;
  const double r = odd * square + even * fourth;
  // ln(2) in two parts. Multiples of the first, which has 32 bits, are exact.
  constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;
  const double half = 0.5 * f * f;
  return e * kLn2High - ((half - (s * (half + r) + e * kLn2Low)) - f);
}

/// Returns z with Phi(z) = p, 0 < p < 1, with a relative error of about 10^-16. Wichura, Algorithm AS 241
/// (PPND16), Applied Statistics 37 (1988), 477-484: rational approximations for |p - 0.5| <= 0.425, for the
/// tails down to exp(-25), and for the rest of the tails.
constexpr double normal_quantile(double p) {
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q *
           polynomial(r, 3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                      1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                      3.3430575583588128105e4, 2.5090809287301226727e3) /
           polynomial(r, 1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
                      2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
                      5.2264952788528545610e3);
  }
  const double r = std::sqrt(-sampling_log(p < 0.5 ? p : 1 - p));
  double z = 0;
  if (r <= 5) {
    const double s = r - 1.6;
    z = polynomial(s, 1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
                   3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
                   2.27238449892691845833e-2, 7.74545014278341407640e-4) /
        polynomial(s, 1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
                   1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
                   1.05075007164441684324e-9);
  } else {
    const double s = r - 5;
    z = polynomial(s, 6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
                   2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                   2.71155556874348757815e-5, 2.01033439929228813265e-7) /
        polynomial(s, 1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
                   7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
                   2.04426310338993978564e-15);
  }
  return q < 0 ? -z : z;
}

/// Returns z with exp(-exp(-z)) = p, 0 < p < 1.
constexpr double gumbel_quantile(double p) { return -sampling_log(-sampling_log(p)); }

}  // namespace mtf
