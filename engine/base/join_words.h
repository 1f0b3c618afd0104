#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtf {

/// Returns "a, b, c", or with `last` " or " in front of the last word "a, b or c".
inline std::string join_words(const std::vector<std::string>& words, std::string_view last = ", ") {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? last : std::string_view(", ");
    text += words[i];
  }
  return text;
}

}  // namespace mtf
