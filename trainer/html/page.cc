#include "trainer/html/page.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/base/json.h"

namespace mtf {
namespace {

std::string_view source(std::string_view name) {
  const std::span<const HtmlSource> sources = html_sources();
  const auto found = std::ranges::find(sources, name, &HtmlSource::name);
  MTF_CHECK(found != sources.end(), "no page has the source {}", name);
  return found->text;
}

std::string all_scripts(std::initializer_list<std::string_view> names) {
  std::string text(source("dom.js"));
  for (const std::string_view name : names) text.append(source(name));
  return text;
}

/// Replaces {{words}} in `text` by their values, in which nothing is replaced.
std::string filled(std::string_view text,
                   std::initializer_list<std::pair<std::string_view, std::string>> values) {
  std::string result;
  while (true) {
    const size_t begin = text.find("{{"), end = text.find("}}", begin);
    if (end == std::string_view::npos) break;
    const std::string_view word = text.substr(begin + 2, end - begin - 2);
    const auto value = std::ranges::find(values, word, [](const auto& pair) { return pair.first; });
    MTF_CHECK(value != values.end(), "page.html asks for {}", word);
    result.append(text.substr(0, begin)).append(value->second);
    text.remove_prefix(end + 2);
  }
  return result.append(text);
}

}  // namespace

std::string escaped_html(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string script_json(const nlohmann::ordered_json& data) {
  // In JSON these characters stand within strings only, where they may be written as \u003c.
  std::string result;
  for (const char c : json_text(data)) {
    if (c == '<') {
      result += "\\u003c";
    } else if (c == '>') {
      result += "\\u003e";
    } else {
      result += c;
    }
  }
  return result;
}

std::string html_page(std::string_view title, std::initializer_list<std::string_view> scripts,
                      const nlohmann::ordered_json& data) {
  return filled(source("page.html"), {{"title", escaped_html(title)},
                                      {"style", std::string(source("theme.css"))},
                                      {"data", script_json(data)},
                                      {"script", all_scripts(scripts)}});
}

}  // namespace mtf
