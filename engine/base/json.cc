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

/// Finds keys that occur twice in an object, and nesting that is too deep. What is no JSON ends it without a message.
class Checker final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Checker(const std::function<void(const std::string& key)>& twice) : twice_(twice) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) twice_(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  bool open() {
    if (keys_.size() >= static_cast<size_t>(kDeepestJson))
      throw TooDeep(fmt::format("lists and objects are nested more than {} deep", kDeepestJson));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  const std::function<void(const std::string& key)>& twice_;
  std::vector<std::set<std::string>> keys_;  ///< so far, for each list (none) or object that is open
};

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::function<void(const std::string& key)>& twice) {
  // The library's parser with a callback visits all elements of a list again after each of them.
  Checker checker(twice);
  nlohmann::json::sax_parse(text.begin(), text.end(), &checker);
  return nlohmann::json::parse(text.begin(), text.end());
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
