// Substitutes pairs of neighbouring elements, like a regular expression of two characters.
#pragma once

#include <cstddef>

namespace mtf {

/// Rewrites pairs from left to right: if `matches(a, b)` holds for two neighbours, `write(result, a, b)`
/// appends their replacement, and the search continues after them. `Result` is a string or a vector.
template <class Result, class Sequence, class Matches, class Write>
Result rewrite_pairs(const Sequence& text, const Matches& matches, const Write& write) {
  const auto* const data = text.data();
  const size_t size = text.size();
  Result result;
  result.reserve(size + size / 2);
  size_t done = 0;
  for (size_t i = 0; i + 1 < size; ++i) {
    if (!matches(data[i], data[i + 1])) continue;
    result.insert(result.end(), data + done, data + i);
    write(result, data[i], data[i + 1]);
    done = i + 2;
    ++i;
  }
  result.insert(result.end(), data + done, data + size);
  return result;
}

}  // namespace mtf
