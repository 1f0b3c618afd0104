#include "engine/base/base64.h"

#include <cstddef>
#include <cstdint>

namespace mtf {

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string result;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) result += i + k <= bytes.size() ? digits[group >> (18 - 6 * k) & 63] : '=';
  }
  return result;
}

}  // namespace mtf
