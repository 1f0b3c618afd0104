// to_yaml(): writes maps as blocks, lists and maps that fit on a line in flow style, and quotes texts that
// YAML would read as something else.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "engine/config/load.h"

namespace mtf::config {
namespace {

constexpr size_t kLineWidth = 110;

/// True for a text that YAML would read as null, a boolean or a number.
bool looks_typed(const std::string& text) {
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* word :
       {"", "~", "null", "true", "false", "yes", "no", "on", "off", ".inf", "-.inf", ".nan"}) {
    if (lower == word) return true;
  }
  return to_number(text).has_value();
}

/// True for a text that needs no quotes, in blocks and in {...}.
bool is_plain(const std::string& text) {
  const auto safe = [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("_-./+*$^()<>=;~ ").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (text.empty() || !std::all_of(text.begin(), text.end(), safe)) return false;
  const auto first = static_cast<unsigned char>(text.front());
  if (!std::isalnum(first) && std::string_view("_./$^(<+").find(text.front()) == std::string_view::npos &&
      !to_number(text)) {
    return false;
  }
  return text.front() != ' ' && text.back() != ' ' && !text.starts_with("<<");
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string scalar_text(const std::string& raw, bool is_text, bool deferred) {
  std::string text;
  for (const char c : raw) text += c == '$' && !deferred ? "$$" : std::string(1, c);
  return is_plain(text) && !(is_text && looks_typed(text)) ? text : quoted(text);
}

std::string key_text(const Node& map, const Entry& entry) {
  return scalar_text(entry.key, /*is_text=*/true, map.variables() != nullptr);
}

std::string flow(const Node& node) {
  std::string result;
  switch (node.kind()) {
    case Node::Kind::kNull:
      return "null";
    case Node::Kind::kScalar:
      return scalar_text(node.text(), node.quoted(), node.variables() != nullptr);
    case Node::Kind::kList:
      for (const Node& element : node.elements()) result += (result.empty() ? "" : ", ") + flow(element);
      return "[" + result + "]";
    case Node::Kind::kMap:
      for (const Entry& entry : node.entries()) {
        result += (result.empty() ? "" : ", ") + key_text(node, entry) + ": " + flow(entry.value);
      }
      return "{" + result + "}";
  }
  return result;
}

bool holds_map(const Node& node) {
  return node.is_map() || std::any_of(node.elements().begin(), node.elements().end(), holds_map);
}

/// True for a map of plain values, or a value without maps in it, if it fits on the line.
bool fits_on_line(const Node& node, size_t used) {
  if (node.entries().size() > 4) return false;
  for (const Entry& entry : node.entries()) {
    if (holds_map(entry.value)) return false;
  }
  for (const Node& element : node.elements()) {
    if (holds_map(element)) return false;
  }
  return used + flow(node).size() <= kLineWidth;
}

void block(const Node& node, size_t indentation, std::string& result);

void value_after(const std::string& front, const Node& node, size_t indentation, std::string& result) {
  const bool empty = node.entries().empty() && node.elements().empty();
  if (node.is_scalar() || node.is_null() || empty || fits_on_line(node, indentation + front.size() + 1)) {
    result += front + " " + flow(node) + "\n";
  } else {
    result += front + "\n";
    block(node, indentation + 2, result);
  }
}

void block(const Node& node, size_t indentation, std::string& result) {
  const std::string blanks(indentation, ' ');
  for (const Entry& entry : node.entries()) {
    value_after(blanks + key_text(node, entry) + ":", entry.value, indentation, result);
  }
  for (const Node& element : node.elements()) {
    if (element.is_map() && element.entries().size() > 0 && !fits_on_line(element, indentation + 2)) {
      std::string inner;
      block(element, indentation + 2, inner);
      inner.replace(indentation, 1, "-");
      result += inner;
    } else {
      value_after(blanks + "-", element, indentation, result);
    }
  }
}

}  // namespace

std::string to_yaml(const Node& node) {
  if (node.entries().empty() && node.elements().empty()) return flow(node) + "\n";
  std::string result;
  block(node, 0, result);
  return result;
}

std::string to_flow_yaml(const Node& node) { return flow(node); }

}  // namespace mtf::config
