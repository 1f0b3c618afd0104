#include "data/text/json_lines.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/printable.h"

namespace mtf {
namespace {

/// Returns the reason, "column 3: syntax error ...", without the library's line number: each line is parsed
/// alone, so it is always 1.
std::string reason_of(const nlohmann::json::exception& error) {
  constexpr std::string_view kFront = "parse error at line 1, ";
  const std::string message = message_of(error);
  return message.starts_with(kFront) ? message.substr(kFront.size()) : message;
}

}  // namespace

JsonLines::JsonLines(const std::string& path, TextProblems& problems, const TextLimit& limit,
                     int64_t& blank_lines)
    : lines_(path, problems, limit), problems_(problems), blank_lines_(blank_lines) {}

std::optional<nlohmann::json> JsonLines::next() {
  while (const auto line = lines_.next()) {
    if (is_blank_line(*line)) {
      ++blank_lines_;
    } else if (std::optional<nlohmann::json> object = parse(*line)) {
      return object;
    }
  }
  return std::nullopt;
}

bool JsonLines::wrong(const std::string& what, const std::string& hint) const {
  problems_.add(lines_.path(), "line", lines_.line(), what, hint);
  return false;
}

std::optional<nlohmann::json> JsonLines::parse(std::string_view line) const {
  try {
    nlohmann::json object = parse_json(line, [](const std::string& key) {
      throw Error(ErrorKind::kData, fmt::format("the key `{}` occurs twice", printable(key)));
    });
    if (object.is_object()) return object;
    wrong("no JSON object", "an object in each line");
  } catch (const nlohmann::json::exception& error) {
    wrong(fmt::format("no valid JSON: {}", printable(reason_of(error))), "a JSON object in each line");
  } catch (const Error& error) {
    wrong(error.problems().front().message, "each key once");
  }
  return std::nullopt;
}

}  // namespace mtf
