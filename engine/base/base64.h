// Bytes as text (RFC 4648, section 4), such as images within JSON and HTML.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mtf {

/// What a PNG file in base64 follows in a data URI.
inline constexpr std::string_view kPngUri = "data:image/png;base64,";

/// Returns the bytes in base64, filled up with `=` to a multiple of four characters.
std::string base64(std::string_view bytes);
/// Returns the bytes of a text in base64; nullopt for one that is none.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace mtf
