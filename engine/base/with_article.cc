#include "engine/base/with_article.h"

#include <cctype>

namespace mtf {
namespace {

/// True if what is spoken first is a vowel.
bool begins_with_vowel(std::string_view name) {
  if (name.empty()) return false;
  const auto upper = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  const auto second = static_cast<unsigned char>(name.size() > 1 ? name[1] : ' ');
  const bool is_spelled = std::isupper(second) || std::isdigit(second);
  constexpr std::string_view kVowels = "AEIO", kSpelledWithVowel = "AEFHILMNORSX";
  return (is_spelled ? kSpelledWithVowel : kVowels).find(upper) != std::string_view::npos;
}

}  // namespace

std::string with_article(std::string_view name) {
  return std::string(begins_with_vowel(name) ? "an " : "a ").append(name);
}

}  // namespace mtf
