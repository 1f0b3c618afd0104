// merge() and apply_argument(): how later files and `key=value` arguments change what stands already.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "engine/config/load.h"
#include "engine/core/nearest.h"

namespace mtf::config {
namespace {

/// `optimizer: adam` is short for `optimizer: {type: adam}`.
Node word_as_type(const Node& word) {
  return Node::map({{"type", word.mark(), word, /*implied=*/true}}, word.mark());
}

/// The type changes, appears, or (null) goes.
bool type_differs(const Node& base, const Node& over) {
  const Entry* type = over.entry("type");
  if (!type) return false;
  const Entry* before = base.entry("type");
  return !before || !(before->value == type->value);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

/// One `key=value` on its way down the tree.
class Assignment {
 public:
  Assignment(std::string_view path, bool append, Node value, const Mark& mark, const Rules& rules,
             Diagnostics& diagnostics)
      : keys_(split(path, '.')),
        append_(append),
        value_(std::move(value)),
        mark_(mark),
        rules_(rules),
        diagnostics_(diagnostics) {}

  Node apply(const Node& root) const { return set(root, 0); }

 private:
  bool at_whole_section(size_t depth) const {
    return depth == 1 && std::count(rules_.replaced_whole.begin(), rules_.replaced_whole.end(), keys_[0]) > 0;
  }

  std::string path_to(size_t depth) const {
    std::string path;
    for (size_t i = 0; i < depth; ++i) path += fmt::format("{}{}", i > 0 ? "." : "", keys_[i]);
    return path;
  }

  Node set(const Node& node, size_t depth) const {
    if (depth == keys_.size())
      return append_ ? appended(node) : at_whole_section(depth) ? value_ : merge(node, value_);
    if (node.is_list()) return set_in_list(node, depth);
    Node map = node;
    if (node.is_scalar()) {
      const bool pairs = at_whole_section(depth) && node.text().find(':') != std::string::npos;
      map = pairs            ? pairs_to_map(node, diagnostics_)
            : node.is_word() ? word_as_type(node)
                             : Node::null(mark_);
    }
    const std::string key(keys_[depth]);
    if (key == "type" && depth + 1 == keys_.size() && !append_)
      return merge(map, Node::map({{key, mark_, value_}}, mark_));
    const Entry* entry = map.entry(key);
    return map.with({key, mark_, set(entry ? entry->value : Node(), depth + 1)});
  }

  Node appended(const Node& node) const {
    if (node.is_map()) {
      diagnostics_.error(mark_, fmt::format("`{}` is a map; `+=` appends to a list", path_to(keys_.size())),
                         fmt::format("write `{}.NAME=...`", path_to(keys_.size())));
      return node;
    }
    std::vector<Node> elements = node.elements();
    if (node.is_scalar()) elements.push_back(node);
    if (value_.is_list()) {
      elements.insert(elements.end(), value_.elements().begin(), value_.elements().end());
    } else {
      elements.push_back(value_);
    }
    return Node::list(std::move(elements), mark_);
  }

  /// An entry of a list as seen by paths: the name of its layer, and its options.
  struct Element {
    std::string layer;  ///< empty: a map with several keys, or a value
    Node options;
    std::string name;  ///< of `name:` in the options
  };

  static Element look_at(const Node& node) {
    Element element;
    if (node.is_word()) {
      element.layer = node.text();
    } else if (node.is_map() && node.entries().size() == 1 && node.entries()[0].key != "type") {
      element.layer = node.entries()[0].key;
      element.options = node.entries()[0].value;
    } else {
      element.options = node;
    }
    if (const Node* name = element.options.find("name")) element.name = name->text();
    return element;
  }

  /// `node` with `change` applied to its options.
  Node change_options(const Node& node, const std::function<Node(const Node&)>& change) const {
    const Element element = look_at(node);
    const Node changed = change(element.options);
    if (element.layer.empty()) return changed;
    const Mark& mark = node.is_map() ? node.entries()[0].mark : node.mark();
    return Node::map({{element.layer, mark, changed}}, node.mark());
  }

  Node set_in_list(const Node& list, size_t depth) const {
    std::vector<Node> elements = list.elements();
    if (const auto index = to_integer(keys_[depth])) {
      if (*index < 0 || *index >= static_cast<int64_t>(elements.size())) {
        diagnostics_.error(
            mark_, fmt::format("`{}` has no entry {}", path_to(depth), *index),
            elements.empty() ? "the list is empty" : fmt::format("entries are 0 to {}", elements.size() - 1));
        return list;
      }
      elements[*index] = set_by_index(elements[*index], depth + 1);
      return Node::list(std::move(elements), list.mark());
    }
    const std::vector<bool> chosen = choose(elements, keys_[depth]);
    if (std::count(chosen.begin(), chosen.end(), true) == 0) {
      diagnostics_.error(mark_, fmt::format("`{}` has no entry `{}`", path_to(depth), keys_[depth]),
                         did_you_mean(keys_[depth], names_of(elements)));
    }
    for (size_t i = 0; i < elements.size(); ++i) {
      if (chosen[i]) {
        elements[i] =
            change_options(elements[i], [&](const Node& options) { return set(options, depth + 1); });
      }
    }
    return Node::list(std::move(elements), list.mark());
  }

  /// After an index the layer's name may be repeated or left out: `block.0.SelfAttention.dropout`,
  /// `block.0.dropout`.
  Node set_by_index(const Node& element, size_t depth) const {
    if (depth == keys_.size()) return append_ ? appended(element) : value_;
    const std::string layer = look_at(element).layer;
    const size_t below = !layer.empty() && layer == keys_[depth] ? depth + 1 : depth;
    return change_options(element, [&](const Node& options) { return set(options, below); });
  }

  static std::vector<bool> choose(const std::vector<Node>& elements, std::string_view key) {
    std::vector<bool> by_name, by_layer;
    for (const Node& element : elements) {
      const Element seen = look_at(element);
      by_name.push_back(seen.name == key);
      by_layer.push_back(seen.layer == key);
    }
    return std::count(by_name.begin(), by_name.end(), true) > 0 ? by_name : by_layer;
  }

  static std::vector<std::string> names_of(const std::vector<Node>& elements) {
    std::vector<std::string> names;
    for (const Node& element : elements) {
      const Element seen = look_at(element);
      for (const std::string& name : {seen.name, seen.layer}) {
        if (!name.empty() && std::count(names.begin(), names.end(), name) == 0) names.push_back(name);
      }
    }
    return names;
  }

  std::vector<std::string_view> keys_;
  bool append_;
  Node value_;
  const Mark& mark_;
  const Rules& rules_;
  Diagnostics& diagnostics_;
};

/// The same tree, with every place replaced by `mark`.
Node moved_to(const Node& node, const Mark& mark) {
  if (node.is_scalar()) return node.at(mark);
  if (node.is_list()) {
    std::vector<Node> elements;
    for (const Node& element : node.elements()) elements.push_back(moved_to(element, mark));
    return Node::list(std::move(elements), mark);
  }
  if (node.is_map()) {
    std::vector<Entry> entries;
    for (const Entry& entry : node.entries())
      entries.push_back({entry.key, mark, moved_to(entry.value, mark)});
    return Node::map(std::move(entries), mark);
  }
  return Node::null(mark);
}

/// The value of an argument: lists, maps and quoted texts are YAML; all else is a text as it stands, so that
/// `*.gz`, `-` and `a: b` need no second quoting.
Node argument_value(std::string_view text, const Mark& mark, Diagnostics& diagnostics) {
  if (text == "null" || text == "~") return Node::null(mark);
  if (std::string_view("[{\"'").find(text.front()) == std::string_view::npos)
    return Node::scalar(std::string(text), mark);
  Diagnostics inside;
  const Node node = parse_yaml(text, mark.file, inside);
  for (const Problem& problem : inside.errors()) diagnostics.error(mark, problem.message, problem.hint);
  return inside.has_errors() ? Node::null(mark) : moved_to(node, mark);
}

}  // namespace

Node merge(const Node& base, const Node& over) {
  if (!over.is_map()) return over;
  const Node start = base.is_word() && !over.entry("type") ? word_as_type(base) : base;
  if (!start.is_map() || type_differs(start, over)) return over;
  Node result = start;
  for (const Entry& entry : over.entries()) {
    const Entry* below = result.entry(entry.key);
    result = result.with(
        {entry.key, entry.mark, below ? merge(below->value, entry.value) : entry.value, entry.implied});
  }
  return over.incomplete() ? result.as_incomplete() : result;
}

Node apply_argument(const Node& root, std::string_view argument, const Mark& mark, Diagnostics& diagnostics,
                    const Rules& rules) {
  const size_t equals = argument.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    diagnostics.error(mark, fmt::format("`{}` is neither a file nor `key=value`", argument),
                      "write for example `train.steps=100`");
    return root;
  }
  const bool append = argument[equals - 1] == '+';
  const std::string_view path = argument.substr(0, equals - (append ? 1 : 0));
  const std::string_view text = argument.substr(equals + 1);
  const std::vector<std::string_view> keys = split(path, '.');
  if (std::any_of(keys.begin(), keys.end(), [](std::string_view key) { return key.empty(); })) {
    diagnostics.error(mark, fmt::format("`{}` is not a path of keys", path),
                      "write for example `train.steps=100`");
    return root;
  }
  if (text.empty()) {
    diagnostics.error(mark, fmt::format("`{}` has no value", argument),
                      fmt::format("`{}=null` for the default, `{}=\"\"` for an empty text", path, path));
    return root;
  }
  if (keys.front() == "include") {
    diagnostics.error(mark, "`include` stands in files only", "name the file before the arguments");
    return root;
  }
  Diagnostics inside;
  const Node value = argument_value(text, mark, inside);
  for (const Problem& problem : inside.errors()) diagnostics.add(problem);
  if (inside.has_errors()) return root;
  return Assignment(path, append, value, mark, rules, diagnostics).apply(root);
}

}  // namespace mtf::config
