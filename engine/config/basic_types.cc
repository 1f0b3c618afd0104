// Types without parts: numbers, texts, booleans, element types, and nodes that another schema reads.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/nearest.h"
#include "engine/config/schema.h"

namespace mtf::config {
namespace {

bool is_plain_scalar(const Node& node) { return node.is_scalar() && !node.quoted(); }

bool check_bounds(const Node& node, double value, const Place& place) {
  if (place.constraint.allows(value)) return true;
  place.diagnostics.error(node.mark(), fmt::format("{} must be {}, not {}", place.name(),
                                                   place.constraint.to_string(), node.text()));
  return false;
}

/// Returns the hint "write 100 without quotes" if the quotes are the only mistake.
std::string hint_unquoted(const Node& node, bool fits) {
  return node.is_scalar() && node.quoted() && fits ? fmt::format("write {} without quotes", node.text()) : "";
}

template <class T>
class IntegerType final : public Type {
 public:
  std::string name() const override { return "whole number"; }
  bool accepts(const Node& node) const override { return is_plain_scalar(node) && to_integer(node.text()); }

  void parse(const Node& node, void* value, const Place& place) const override {
    const auto number = to_integer(node.text());
    const bool digits = is_plain_scalar(node) && to_number(node.text()) &&
                        node.text().find_first_not_of("+-0123456789") == std::string::npos;
    if (!number && digits) return report_size(node, place);
    if (!is_plain_scalar(node) || !number) return place.wrong_type(node, "a whole number", hint(node));
    if (*number < std::numeric_limits<T>::min() || *number > std::numeric_limits<T>::max()) {
      return report_size(node, place);
    }
    if (check_bounds(node, static_cast<double>(*number), place))
      *static_cast<T*>(value) = static_cast<T>(*number);
  }

  Node dump(const void* value) const override {
    return Node::scalar(fmt::format("{}", *static_cast<const T*>(value)));
  }

 private:
  static void report_size(const Node& node, const Place& place) {
    place.diagnostics.error(node.mark(),
                            fmt::format("{} cannot be as large as {}", place.name(), node.text()));
  }

  /// Suggests how to write the number: YAML reads 1e5 as a fraction.
  static std::string hint(const Node& node) {
    const auto number = to_number(node.text());
    if (is_plain_scalar(node) && number && std::abs(*number) < 1e15 && *number == std::floor(*number)) {
      return fmt::format("write {}", static_cast<int64_t>(*number));
    }
    return hint_unquoted(node, to_integer(node.text()).has_value());
  }
};

template <class T>
class FloatType final : public Type {
 public:
  std::string name() const override { return "number"; }
  bool accepts(const Node& node) const override { return is_plain_scalar(node) && to_number(node.text()); }

  void parse(const Node& node, void* value, const Place& place) const override {
    const auto number = to_number(node.text());
    if (!is_plain_scalar(node) || !number) {
      return place.wrong_type(node, "a number", hint_unquoted(node, number.has_value()));
    }
    if (std::abs(*number) > std::numeric_limits<T>::max()) {
      return place.diagnostics.error(node.mark(),
                                     fmt::format("{} cannot be as large as {}", place.name(), node.text()));
    }
    if (check_bounds(node, *number, place)) *static_cast<T*>(value) = static_cast<T>(*number);
  }

  Node dump(const void* value) const override {
    return Node::scalar(fmt::format("{}", *static_cast<const T*>(value)));
  }
};

class BoolType final : public Type {
 public:
  std::string name() const override { return "true | false"; }
  bool accepts(const Node& node) const override { return is_plain_scalar(node) && to_bool(node.text()); }

  void parse(const Node& node, void* value, const Place& place) const override {
    const auto answer = to_bool(node.text());
    if (!is_plain_scalar(node) || !answer) return place.wrong_type(node, "true or false", hint(node.text()));
    *static_cast<bool*>(value) = *answer;
  }

  Node dump(const void* value) const override {
    return Node::scalar(*static_cast<const bool*>(value) ? "true" : "false");
  }

 private:
  static std::string hint(std::string_view text) {
    for (const char* word : {"yes", "Yes", "YES", "on", "On", "ON", "True", "TRUE", "1"}) {
      if (text == word) return "write true";
    }
    for (const char* word : {"no", "No", "NO", "off", "Off", "OFF", "False", "FALSE", "0"}) {
      if (text == word) return "write false";
    }
    return {};
  }
};

class TextType final : public Type {
 public:
  std::string name() const override { return "text"; }
  bool accepts(const Node& node) const override { return node.is_scalar(); }

  void parse(const Node& node, void* value, const Place& place) const override {
    if (!node.is_scalar()) return place.wrong_type(node, "a text");
    const std::vector<std::string>& words = place.constraint.words;
    if (!words.empty() && std::find(words.begin(), words.end(), node.text()) == words.end()) {
      return place.diagnostics.error(node.mark(),
                                     fmt::format("unknown value `{}` of {}", node.text(), place.name()),
                                     did_you_mean(node.text(), words));
    }
    *static_cast<std::string*>(value) = node.text();
  }

  Node dump(const void* value) const override {
    return Node::scalar(*static_cast<const std::string*>(value), {}, true);
  }
};

class DTypeType final : public Type {
 public:
  std::string name() const override { return "float32 | bfloat16 | float64 | int32 | int64 | bool"; }
  bool accepts(const Node& node) const override { return node.is_scalar() && parse_dtype(node.text()); }

  void parse(const Node& node, void* value, const Place& place) const override {
    const auto dtype = node.is_scalar() ? parse_dtype(node.text()) : std::nullopt;
    const std::vector<std::string> all = {"float32", "bfloat16", "float64", "int32", "int64", "bool"};
    const std::vector<std::string>& words = place.constraint.words.empty() ? all : place.constraint.words;
    if (!dtype || std::find(words.begin(), words.end(), node.text()) == words.end()) {
      return place.diagnostics.error(node.mark(),
                                     fmt::format("{} cannot be {}", place.name(), node.describe()),
                                     did_you_mean(node.text(), words));
    }
    *static_cast<DType*>(value) = *dtype;
  }

  Node dump(const void* value) const override {
    return Node::scalar(std::string(name_of(*static_cast<const DType*>(value))), {}, true);
  }
};

class NodeType final : public Type {
 public:
  std::string name() const override { return {}; }
  bool accepts(const Node&) const override { return true; }
  void parse(const Node& node, void* value, const Place&) const override {
    *static_cast<Node*>(value) = node;
  }
  Node dump(const void* value) const override { return *static_cast<const Node*>(value); }
};

}  // namespace

template <>
const Type& type_of<bool>() {
  static const BoolType kType;
  return kType;
}

template <>
const Type& type_of<int>() {
  static const IntegerType<int> kType;
  return kType;
}

template <>
const Type& type_of<int64_t>() {
  static const IntegerType<int64_t> kType;
  return kType;
}

template <>
const Type& type_of<float>() {
  static const FloatType<float> kType;
  return kType;
}

template <>
const Type& type_of<double>() {
  static const FloatType<double> kType;
  return kType;
}

template <>
const Type& type_of<std::string>() {
  static const TextType kType;
  return kType;
}

template <>
const Type& type_of<DType>() {
  static const DTypeType kType;
  return kType;
}

template <>
const Type& type_of<Node>() {
  static const NodeType kType;
  return kType;
}

}  // namespace mtf::config
