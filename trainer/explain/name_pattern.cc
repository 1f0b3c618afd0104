#include "trainer/explain/name_pattern.h"

namespace mtf {

std::vector<std::string> split_numbers(const std::string& name) {
  std::vector<std::string> parts{""};
  bool number = false;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (digit != number) parts.emplace_back();
    number = digit;
    parts.back() += c;
  }
  return parts;
}

std::string without_numbers(const std::string& name) {
  const std::vector<std::string> parts = split_numbers(name);
  std::string result;
  for (size_t i = 0; i < parts.size(); ++i) result += i % 2 == 0 ? parts[i] : "*";
  return result;
}

std::string name_pattern(const std::vector<std::string>& names) {
  std::vector<std::string> parts = split_numbers(names[0]);
  for (const std::string& name : names) {
    const std::vector<std::string> other = split_numbers(name);
    for (size_t i = 1; i < parts.size(); i += 2) {
      if (other[i] != parts[i]) parts[i] = "*";
    }
  }
  std::string pattern;
  for (const std::string& part : parts) pattern += part;
  return pattern;
}

}  // namespace mtf
