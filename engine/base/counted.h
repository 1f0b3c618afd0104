// Formats numbers and counts for messages.
//
//   counted(25000, "row")   // "25,000 rows"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mtf {

/// Returns "25,000" for 25000.
std::string with_thousands(double number);
/// Returns "1 row", "25,000 rows".
std::string counted(int64_t count, std::string_view noun);

/// Returns the number with six significant digits, which the order of sums hardly changes.
double to_six_digits(double number);

}  // namespace mtf
