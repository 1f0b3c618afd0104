// Parses JSON safely: a damaged or hostile file cannot exhaust the memory. Writes it whatever the bytes of its texts are.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace mtf {

inline constexpr int kDeepestJson = 1000;

/// Parses `text`. Throws nlohmann::json::exception if it is not JSON, or if lists and objects are nested more
/// than kDeepestJson deep, because these take a hundred times the memory of their text. JSON libraries accept
/// a key that occurs twice in an object; here it is passed to `twice`, which must throw.
nlohmann::json parse_json(std::string_view text, const std::function<void(const std::string& key)>& twice);

/// Returns JSON text: on one line, or with `indent` blanks for each level. Names and texts of a user may have any bytes; those
/// that are no UTF-8 become U+FFFD.
std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

/// Returns the message without the name and the number that the library puts before it. A long message, which
/// quotes the text, is cut.
std::string message_of(const nlohmann::json::exception& error);

}  // namespace mtf
