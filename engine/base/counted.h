// Numbers in messages for people.
//
//   counted(25000, "row")   // "25,000 rows"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mtf {

/// 25000 -> "25,000".
std::string with_thousands(double number);
/// "1 row", "25,000 rows".
std::string counted(int64_t count, std::string_view noun);

}  // namespace mtf
