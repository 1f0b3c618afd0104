// Texts in lower case.
#pragma once

#include <string>
#include <string_view>

namespace mtf {

/// `text` (UTF-8) in lower case by Unicode's full case mapping, the same in every language: "GRÖSSE" is
/// "grösse".
std::string to_lower_case(std::string_view text);

}  // namespace mtf
