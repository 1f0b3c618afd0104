#pragma once

#include <fmt/format.h>

#include <string>

namespace mtf {

/// A positive number with three digits, as no measurement is more precise; 0 for others.
inline double rounded(double value) { return value > 0 ? std::stod(fmt::format("{:.3g}", value)) : 0; }

}  // namespace mtf
