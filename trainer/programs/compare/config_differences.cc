#include "trainer/programs/compare/config_differences.h"

#include <algorithm>

#include "engine/config/load.h"

namespace mtf {
namespace {

using config::Entry;
using config::Node;

constexpr const char* kAbsent = "-";

Node load(const std::string& file) {
  Diagnostics diagnostics;
  Node root = config::load({file}, {}, diagnostics);
  diagnostics.throw_if_errors();
  const Node* model = root.find("model");
  const Node variables = model ? config::deferred_variables(*model) : Node();
  return variables.entries().empty() ? root : root.with({"vars", {}, variables, false});
}

bool holds_maps(const Node& list) {
  return std::any_of(list.elements().begin(), list.elements().end(),
                     [](const Node& e) { return e.is_map(); });
}

/// Returns the options of `{layer: {options}}`, or the node itself if it has another form.
Node options_of(const Node& element) {
  const bool layer = element.is_map() && element.entries().size() == 1 && element.entries()[0].value.is_map();
  return layer ? element.entries()[0].value : element;
}

/// True if both are the same layer, or maps that are not layers.
bool same_layer(const Node& a, const Node& b) {
  if (!a.is_map() || !b.is_map()) return false;
  const bool layers = a.entries().size() == 1 && b.entries().size() == 1;
  return !layers || a.entries()[0].key == b.entries()[0].key;
}

class ConfigComparison {
 public:
  std::vector<ConfigDifference> differences;

  void compare(const std::string& path, const Node& a, const Node& b) {
    if (a == b) return;
    if (a.is_map() && b.is_map()) {
      compare_maps(path, a, b);
    } else if (a.is_list() && b.is_list() && (holds_maps(a) || holds_maps(b))) {
      compare_lists(path, a.elements(), b.elements());
    } else {
      add(path, config::to_flow_yaml(a), config::to_flow_yaml(b));
    }
  }

 private:
  void add(const std::string& path, std::string a, std::string b) {
    differences.push_back({path, std::move(a), std::move(b)});
  }

  void compare_maps(const std::string& path, const Node& a, const Node& b) {
    const std::string prefix = path.empty() ? "" : path + ".";
    const Node *type_a = a.find("type"), *type_b = b.find("type");
    const bool other_type = type_a && type_b && !(*type_a == *type_b);
    for (const Entry& entry : a.entries()) {
      if (const Entry* other = b.entry(entry.key)) {
        compare(prefix + entry.key, entry.value, other->value);
      } else if (!other_type) {
        add(prefix + entry.key, config::to_flow_yaml(entry.value), kAbsent);
      }
    }
    for (const Entry& entry : b.entries()) {
      if (!a.entry(entry.key) && !other_type)
        add(prefix + entry.key, kAbsent, config::to_flow_yaml(entry.value));
    }
  }

  /// Skips the common prefix and suffix of two lists and compares the entries in between one by one.
  void compare_lists(const std::string& path, const std::vector<Node>& a, const std::vector<Node>& b) {
    const size_t shorter = std::min(a.size(), b.size());
    size_t begin = 0, end = 0;
    while (begin < shorter && a[begin] == b[begin]) ++begin;
    while (end < shorter - begin && a[a.size() - 1 - end] == b[b.size() - 1 - end]) ++end;
    for (size_t i = begin; i < std::max(a.size(), b.size()) - end; ++i) {
      const bool in_a = i < a.size() - end, in_b = i < b.size() - end;
      if (in_a && in_b) {
        compare_elements(path, i, a[i], b[i]);
      } else {
        add(path + "." + std::to_string(i), in_a ? config::to_flow_yaml(a[i]) : kAbsent,
            in_b ? config::to_flow_yaml(b[i]) : kAbsent);
      }
    }
  }

  /// Compares two entries of lists. Their path contains their common name, or else their index.
  void compare_elements(const std::string& path, size_t index, const Node& a, const Node& b) {
    const std::string by_index = path + "." + std::to_string(index);
    if (!same_layer(a, b)) return compare(by_index, a, b);
    const Node options_a = options_of(a), options_b = options_of(b);
    const Node *name_a = options_a.find("name"), *name_b = options_b.find("name");
    const bool named = name_a && name_b && *name_a == *name_b;
    compare(named ? path + "." + name_a->text() : by_index, options_a, options_b);
  }
};

}  // namespace

std::vector<ConfigDifference> compare_configs(const std::string& file_a, const std::string& file_b) {
  ConfigComparison comparison;
  comparison.compare({}, load(file_a), load(file_b));
  return std::move(comparison.differences);
}

}  // namespace mtf
