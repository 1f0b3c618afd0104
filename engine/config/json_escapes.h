// JSON writes a character above U+FFFF as two escapes, a pair of surrogates: `\ud83d\ude00`. YAML has one escape for it,
// `\U0001f600`, and yaml-cpp refuses surrogates. Python's json.dump() writes such pairs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mtf::config {

/// Returns the character whose pair of escapes stands at the front of `text`.
std::optional<char32_t> surrogate_pair(std::string_view text);

/// Returns a JSON text with YAML's escapes in place of pairs, which are longer by two bytes; any other text as it is.
std::string with_yaml_escapes(std::string_view text);

}  // namespace mtf::config
