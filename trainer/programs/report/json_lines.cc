#include "trainer/programs/report/json_lines.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

namespace mtf {
namespace {

using Json = nlohmann::ordered_json;

/// Collects the members of the outermost object; the library calls it for each token.
class FlatReader final : public nlohmann::json_sax<Json> {
 public:
  explicit FlatReader(FlatObject& object) : object_(object) {}

  bool null() override { return number(std::numeric_limits<double>::quiet_NaN()); }
  bool boolean(bool value) override { return number(value ? 1 : 0); }
  bool number_integer(number_integer_t value) override { return number(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& value) override {
    if (depth_ == 1) object_.texts.emplace_back(std::move(key_), std::move(value));
    return depth_ > 0;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override {
    ++depth_;
    return true;
  }
  bool key(string_t& key) override {
    if (depth_ == 1) key_ = std::move(key);
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(size_t) override { return depth_++ > 0; }  // the line itself is no list
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool number(double value) {
    if (depth_ == 1) object_.numbers.emplace_back(std::move(key_), value);
    return depth_ > 0;
  }

  FlatObject& object_;
  std::string key_;
  int depth_ = 0;
};

template <class Members>
auto member_of(const Members& members, std::string_view name) {
  return std::ranges::find_if(members, [&](const auto& member) { return member.first == name; });
}

}  // namespace

void for_each_line(const std::string& path, size_t longest,
                   const std::function<void(std::string_view)>& use) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> buffer(1 << 16);
  std::string line;
  bool too_long = false;
  while (file.read(buffer.data(), std::ssize(buffer)), file.gcount() > 0) {
    std::string_view rest(buffer.data(), static_cast<size_t>(file.gcount()));
    for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      const std::string_view part = rest.substr(0, end);
      if (!too_long && line.size() + part.size() <= longest) use(line.empty() ? part : line.append(part));
      line.clear();
      too_long = false;
      rest.remove_prefix(end + 1);
    }
    too_long = too_long || line.size() + rest.size() > longest;
    if (too_long) {
      line.clear();
    } else {
      line.append(rest);
    }
  }
}

double FlatObject::number(std::string_view name, double otherwise) const {
  const auto found = member_of(numbers, name);
  return found == numbers.end() ? otherwise : found->second;
}

const std::string& FlatObject::text(std::string_view name) const {
  static const std::string none;
  const auto found = member_of(texts, name);
  return found == texts.end() ? none : found->second;
}

bool parse_flat(std::string_view line, FlatObject& object) {
  object.numbers.clear();
  object.texts.clear();
  FlatReader reader(object);
  return Json::sax_parse(line.begin(), line.end(), &reader);
}

}  // namespace mtf
