// Converts texts to lower case.
#pragma once

#include <string>
#include <string_view>

namespace mtf {

/// Returns `text` (UTF-8) in lower case, by Unicode's full case mapping without language-specific rules:
/// "GRÖSSE" becomes "grösse".
std::string to_lower_case(std::string_view text);

}  // namespace mtf
