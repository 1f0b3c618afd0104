#include "engine/checkpoint/json.h"

#include <set>
#include <vector>

namespace mtf {

nlohmann::json parse_json(std::string_view text, const std::function<void(const std::string& key)>& twice) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> open;  // keys of the objects in which the parser is
  const auto callback = [&](int, Event event, const nlohmann::json& parsed) {
    if (event == Event::object_start) open.emplace_back();
    if (event == Event::object_end) open.pop_back();
    if (event == Event::key && !open.back().insert(parsed.get<std::string>()).second)
      twice(parsed.get<std::string>());
    return true;
  };
  return nlohmann::json::parse(text.begin(), text.end(), callback);
}

std::string message_of(const nlohmann::json::exception& error) {
  const std::string_view text = error.what();
  const size_t name = text.find("] ");
  return std::string(text.substr(name == std::string_view::npos ? 0 : name + 2));
}

}  // namespace mtf
