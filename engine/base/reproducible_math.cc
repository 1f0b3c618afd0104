#include "engine/base/reproducible_math.h"

#include <cstdint>

// The C library's functions of IEEE binary128, which it computes with integers on every machine.
extern "C" {
__float128 expf128(__float128) noexcept;
__float128 expm1f128(__float128) noexcept;
__float128 logf128(__float128) noexcept;
__float128 log1pf128(__float128) noexcept;
__float128 tanhf128(__float128) noexcept;
__float128 sinf128(__float128) noexcept;
__float128 cosf128(__float128) noexcept;
__float128 powf128(__float128, __float128) noexcept;
}

namespace mtf::reproducible::portable {
namespace {

/// x = quarters * pi/2 + rest with about |rest| <= pi/4, for |x| < kMostReduced.
struct ReducedAngle {
  int64_t quarters;
  double rest;
};
constexpr double kMostReduced = 0x1p20;

ReducedAngle reduced(double x) {
  // The first part of pi/2 has 33 bits, so that its multiples are exact.
  constexpr double kHigh = 1.57079632673412561417e+00, kLow = 6.07710050650619224932e-11;
  const double quotient = x * 6.36619772367581382433e-01;
  const auto quarters = static_cast<int64_t>(quotient + (quotient < 0 ? -0.5 : 0.5));
  const auto n = static_cast<double>(quarters);
  return {quarters, (x - n * kHigh) - n * kLow};
}

/// Polynomials for |x| <= pi/4 with a relative error of 2^-37 (FreeBSD, k_sinf.c and k_cosf.c).
double sine(double x) {
  const double z = x * x;
  return x + x * z *
                 (-0.166666666416265235595 +
                  z * (0.0083333293858894631756 +
                       z * (-0.000198393348360966317347 + z * 0.0000027183114939898219064)));
}
double cosine(double x) {
  const double z = x * x;
  return 1.0 + z * (-0.499999997251031003120 +
                    z * (0.0416666233237390631894 +
                         z * (-0.00138867637746099294692 + z * 0.0000243904487962774090654)));
}

/// sin(rest + quarters * pi/2).
float sine_of(const ReducedAngle& angle, int64_t shift) {
  const int64_t quarter = (angle.quarters + shift) & 3;
  const double y = quarter % 2 == 0 ? sine(angle.rest) : cosine(angle.rest);
  return static_cast<float>(quarter < 2 ? y : -y);
}

}  // namespace

double exp(double x) { return static_cast<double>(expf128(x)); }
double expm1(double x) { return static_cast<double>(expm1f128(x)); }
double log(double x) { return static_cast<double>(logf128(x)); }
double log1p(double x) { return static_cast<double>(log1pf128(x)); }
double tanh(double x) { return static_cast<double>(tanhf128(x)); }
double sin(double x) { return static_cast<double>(sinf128(x)); }
double cos(double x) { return static_cast<double>(cosf128(x)); }
double pow(double x, double p) { return static_cast<double>(powf128(x, p)); }

float sin(float x) {
  if (!(std::abs(x) < kMostReduced)) return static_cast<float>(sinf128(x));
  return x == 0 ? x : sine_of(reduced(x), 0);
}
float cos(float x) {
  if (!(std::abs(x) < kMostReduced)) return static_cast<float>(cosf128(x));
  return sine_of(reduced(x), 1);
}

}  // namespace mtf::reproducible::portable
