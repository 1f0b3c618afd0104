#include "engine/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <utility>
#include <vector>

namespace mtf {
namespace {

constexpr size_t kLongestMessage = 300;

class TooDeep final : public nlohmann::json::exception {
 public:
  explicit TooDeep(const std::string& what) : exception(0, what.c_str()) {}
};

/// Makes a value of the events of the library's parser. Its own parser with a callback visits all elements of a list again after
/// each of them.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(const std::function<void(const std::string& key)>& twice) : twice_(twice) {}

  nlohmann::json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t& value) override { return put(std::move(value)); }
  bool start_object(std::size_t) override { return open(nlohmann::json::object()); }
  bool start_array(std::size_t) override { return open(nlohmann::json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (open_.back()->contains(name)) twice_(name);
    member_ = &(*open_.back())[name];
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) override {
    throw error;
  }

 private:
  nlohmann::json& place(nlohmann::json value) {
    if (open_.empty()) return root_ = std::move(value);
    nlohmann::json& around = *open_.back();
    if (around.is_object()) return *member_ = std::move(value);
    around.push_back(std::move(value));
    return around.back();
  }
  bool put(nlohmann::json value) {
    place(std::move(value));
    return true;
  }
  bool open(nlohmann::json empty) {
    if (open_.size() >= static_cast<size_t>(kDeepestJson))
      throw TooDeep(fmt::format("lists and objects are nested more than {} deep", kDeepestJson));
    open_.push_back(&place(std::move(empty)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::function<void(const std::string& key)>& twice_;
  nlohmann::json root_;
  std::vector<nlohmann::json*> open_;  ///< lists and objects, each in the one before it
  nlohmann::json* member_ = nullptr;   ///< the value of the last key of the innermost object
};

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::function<void(const std::string& key)>& twice) {
  Builder builder(twice);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

namespace {

/// The library writes about one in a thousand numbers with more digits than are needed to read the same number again: 17.
std::string with_fewest_digits(const std::string& number) {
  constexpr size_t kMostDigits = 17;
  const auto digits = std::ranges::count_if(number, [](char c) { return c >= '0' && c <= '9'; });
  if (digits < static_cast<std::ptrdiff_t>(kMostDigits) || number.find('.') == std::string::npos)
    return number;
  std::string shortest = fmt::format("{}", std::strtod(number.c_str(), nullptr));
  return shortest.size() < number.size() && shortest.find('.') != std::string::npos ? shortest : number;
}

/// Returns a text of JSON in which each number has the fewest digits.
std::string with_short_numbers(const std::string& text) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (text[at] == '"') {
      while (text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      ++end;
    } else if (text[at] == '-' || (text[at] >= '0' && text[at] <= '9')) {
      end = std::min(text.find_first_not_of("0123456789.eE+-", at), text.size());
      result += with_fewest_digits(text.substr(at, end - at));
      at = end;
      continue;
    }
    result.append(text, at, end - at);
    at = end;
  }
  return result;
}

}  // namespace

std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return with_short_numbers(json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
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
