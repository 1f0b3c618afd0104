// The inverse of the normal distribution function, computed in the same way on the host and on devices.
#pragma once

#include <cmath>

namespace mtf {

/// Evaluates a polynomial; the constant term comes first.
constexpr double polynomial(double, double constant) { return constant; }
template <class... Coefficients>
constexpr double polynomial(double x, double constant, Coefficients... rest) {
  return polynomial(x, rest...) * x + constant;
}

/// Returns z with Phi(z) = p, 0 < p < 1, with a relative error of about 10^-16. Wichura, Algorithm AS 241
/// (PPND16), Applied Statistics 37 (1988), 477-484: rational approximations for |p - 0.5| <= 0.425, for the
/// tails down to exp(-25), and for the rest of the tails.
constexpr double normal_quantile(double p);

/// True if p is in a tail, where normal_quantile needs a logarithm.
constexpr bool is_tail(double p) { return std::abs(p - 0.5) > 0.425; }
/// `log_tail` is log(min(p, 1 - p)); it counts only in a tail.
constexpr double normal_quantile(double p, double log_tail) {
  const double q = p - 0.5;
  if (!is_tail(p)) {
    const double r = 0.180625 - q * q;
    return q *
           polynomial(r, 3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                      1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                      3.3430575583588128105e4, 2.5090809287301226727e3) /
           polynomial(r, 1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
                      2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
                      5.2264952788528545610e3);
  }
  const double r = std::sqrt(-log_tail);
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
constexpr double normal_quantile(double p) {
  return normal_quantile(p, is_tail(p) ? std::log(p < 0.5 ? p : 1 - p) : 0);
}

}  // namespace mtf
