// JSON that a damaged or hostile file may hold.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace mtf {

inline constexpr int kDeepestJson = 1000;

/// Parses `text`; throws nlohmann::json::exception, also for lists and objects that are nested more than
/// kDeepestJson deep, which take a hundred times the memory of their text. A key that occurs twice in an
/// object, which JSON libraries pass over in silence, is handed to `twice`, which throws.
nlohmann::json parse_json(std::string_view text, const std::function<void(const std::string& key)>& twice);

/// What is wrong, without the name and number that the library gives to the error. Of a long message, which
/// quotes the text, only the beginning.
std::string message_of(const nlohmann::json::exception& error);

}  // namespace mtf
