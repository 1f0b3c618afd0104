// Tests the elementary functions of `portable` against those of the C library.
#include "engine/base/reproducible_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mtf::reproducible {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
void expect_ulps(T actual, T expected, T ulps, double x) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(actual)) << x;
  } else if (std::isinf(expected) || expected == 0) {
    EXPECT_EQ(actual, expected) << x;
  } else {
    EXPECT_LE(std::abs(actual - expected), ulps * std::numeric_limits<T>::epsilon() * std::abs(expected))
        << x;
  }
}

TEST(PortableMath, DoublesAreThoseOfTheLibraryWithinAnUlp) {
  for (const double x :
       {0.0,   -0.0, 1e-300, 1e-9,  0.3,  0.999, 1.0,    1.5,       7.0,        100.0,
        709.0, 1e6,  1e22,   -1e-9, -0.5, -3.0,  -745.0, kInfinity, -kInfinity, std::nan("")}) {
    expect_ulps(portable::exp(x), std::exp(x), 2.0, x);
    expect_ulps(portable::expm1(x), std::expm1(x), 2.0, x);
    expect_ulps(portable::log(x), std::log(x), 2.0, x);
    expect_ulps(portable::log1p(x), std::log1p(x), 2.0, x);
    expect_ulps(portable::tanh(x), std::tanh(x), 3.0, x);
    expect_ulps(portable::sin(x), std::sin(x), 2.0, x);
    expect_ulps(portable::cos(x), std::cos(x), 2.0, x);
    for (const double p : {-2.0, -0.5, 0.0, 0.25, 1.0, 3.0}) {
      expect_ulps(portable::pow(x, p), std::pow(x, p), 2.0, x);
    }
  }
}

TEST(PortableMath, SineAndCosineOfFloatsAreThoseOfTheLibrary) {
  for (float x : {0.0f, -0.0f, 1e-30f, 1.5707964f, 3.1415927f, 1048575.0f, 1048577.0f, 1e30f,
                  std::numeric_limits<float>::infinity(), std::nanf("")}) {
    expect_ulps(portable::sin(x), std::sin(x), 1.5f, x);
    expect_ulps(portable::cos(x), std::cos(x), 1.5f, x);
    EXPECT_EQ(std::signbit(portable::sin(x)), std::signbit(std::sin(x)));
  }
  for (float x = -2000; x < 2000; x += 0.37f) {
    expect_ulps(portable::sin(x), std::sin(x), 1.5f, x);
    expect_ulps(portable::cos(x), std::cos(x), 1.5f, x);
  }
}

TEST(PortableMath, IsUsedForPortableOnly) {
  const InstructionSet before = instruction_set();
  for (const InstructionSet set : available_instruction_sets()) {
    set_instruction_set(set);
    for (double x = 0.1; x < 20; x += 0.1) {
      EXPECT_EQ(log(x), is_portable() ? portable::log(x) : std::log(x));
      EXPECT_EQ(pow(x, 0.7), is_portable() ? portable::pow(x, 0.7) : std::pow(x, 0.7));
      EXPECT_EQ(sin(static_cast<float>(x)),
                is_portable() ? portable::sin(static_cast<float>(x)) : std::sin(static_cast<float>(x)));
    }
  }
  set_instruction_set(before);
}

}  // namespace
}  // namespace mtf::reproducible
