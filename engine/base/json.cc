#include "engine/base/json.h"

#include <fmt/format.h>

#include <set>
#include <vector>

namespace mtf {
namespace {

constexpr size_t kLongestMessage = 300;

class TooDeep final : public nlohmann::json::exception {
 public:
  explicit TooDeep(const std::string& what) : exception(0, what.c_str()) {}
};

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::function<void(const std::string& key)>& twice) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> open;  // keys so far of each object that is open
  const auto callback = [&](int depth, Event event, const nlohmann::json& parsed) {
    if (depth >= kDeepestJson && (event == Event::object_start || event == Event::array_start))
      throw TooDeep(fmt::format("lists and objects are nested more than {} deep", kDeepestJson));
    if (event == Event::object_start) open.emplace_back();
    if (event == Event::object_end) open.pop_back();
    if (event == Event::key && !open.back().insert(parsed.get<std::string>()).second)
      twice(parsed.get<std::string>());
    return true;
  };
  return nlohmann::json::parse(text.begin(), text.end(), callback);
}

std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string message_of(const nlohmann::json::exception& error) {
  const std::string_view text = error.what();
  const size_t name = text.find("] ");
  std::string message(text.substr(name == std::string_view::npos ? 0 : name + 2));
  if (message.size() <= kLongestMessage) return message;
  size_t end = kLongestMessage;
  while (end > 0 && (message[end] & 0xC0) == 0x80) --end;  // so that no character is cut in two
  return message.substr(0, end) + "...";
}

}  // namespace mtf
