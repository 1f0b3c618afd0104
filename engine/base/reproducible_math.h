// Elementary functions whose bits depend on instruction_set() alone. Those of the C library come in versions
// with and without fused multiply-adds, and the loader takes what the machine has: every machine with AVX2
// takes the same ones, but not every x86-64 machine. So with `portable` the functions below are computed
// without the C library's fast versions; they take about a microsecond each (sin and cos of float do not).
//
//   const double correction = 1 - reproducible::pow(beta, step);
//
// std::sqrt, std::floor, std::fmod and std::fma are exact and need nothing of this.
#pragma once

#include <cmath>

#include "engine/base/instruction_set.h"

namespace mtf::reproducible {

/// The functions of `portable`: correctly rounded but for rare cases; sin and cos of float within 1 ulp.
namespace portable {
double exp(double x);
double expm1(double x);
double log(double x);
double log1p(double x);
double tanh(double x);
double sin(double x);
double cos(double x);
double pow(double x, double p);
float sin(float x);
float cos(float x);
}  // namespace portable

inline bool is_portable() { return instruction_set() == InstructionSet::kPortable; }

inline double exp(double x) { return is_portable() ? portable::exp(x) : std::exp(x); }
inline double expm1(double x) { return is_portable() ? portable::expm1(x) : std::expm1(x); }
inline double log(double x) { return is_portable() ? portable::log(x) : std::log(x); }
inline double log1p(double x) { return is_portable() ? portable::log1p(x) : std::log1p(x); }
inline double tanh(double x) { return is_portable() ? portable::tanh(x) : std::tanh(x); }
inline double sin(double x) { return is_portable() ? portable::sin(x) : std::sin(x); }
inline double cos(double x) { return is_portable() ? portable::cos(x) : std::cos(x); }
inline double pow(double x, double p) { return is_portable() ? portable::pow(x, p) : std::pow(x, p); }

inline float exp(float x) { return is_portable() ? static_cast<float>(portable::exp(x)) : std::exp(x); }
inline float log(float x) { return is_portable() ? static_cast<float>(portable::log(x)) : std::log(x); }
inline float sin(float x) { return is_portable() ? portable::sin(x) : std::sin(x); }
inline float cos(float x) { return is_portable() ? portable::cos(x) : std::cos(x); }
inline float pow(float x, float p) {
  return is_portable() ? static_cast<float>(portable::pow(x, p)) : std::pow(x, p);
}

}  // namespace mtf::reproducible
