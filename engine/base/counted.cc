#include "engine/base/counted.h"

#include <fmt/format.h>

#include <cstdlib>

namespace mtf {

std::string with_thousands(double number) {
  std::string digits = fmt::format("{:.0f}", number);
  for (int at = static_cast<int>(digits.size()) - 3; at > (digits[0] == '-' ? 1 : 0); at -= 3)
    digits.insert(at, ",");
  return digits;
}

std::string counted(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", with_thousands(static_cast<double>(count)), noun, count == 1 ? "" : "s");
}

double to_six_digits(double number) { return std::strtod(fmt::format("{:.6g}", number).c_str(), nullptr); }

}  // namespace mtf
