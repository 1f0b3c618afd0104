// merge() and apply_argument(): apply later files and `key=value` arguments to a tree.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>
#include <unordered_map>

#include "engine/base/nearest.h"
#include "engine/config/load.h"
#include "engine/config/source_text.h"
#include "engine/config/variables.h"

namespace mtf::config {
namespace {

/// Expands `optimizer: adam`, which is short for `optimizer: {type: adam}`.
Node word_as_type(const Node& word) {
  return Node::map({{"type", word.mark(), word, /*implied=*/true}}, word.mark());
}

/// True for a text that may be the name of a type, once its variables are resolved.
bool may_name_type(const Node& node) {
  return node.is_word() || (node.is_scalar() && node.text().find('$') != std::string::npos);
}

/// Returns `value`, which takes the place of `before`: a null that stands there removes something.
Node in_place_of(const Node& before, const Node& value) {
  return value.removes_nothing() && !before.removes_nothing() ? Node::null(value.mark()) : value;
}

/// Merges trees at and below a path of keys.
class Merger {
 public:
  Merger(std::vector<std::string_view> path, VariableOpener* variables)
      : path_(std::move(path)), variables_(variables) {}

  Node merge(const Node& base, const Node& value) {
    const bool may_merge = !base.is_null() && value.is_scalar() && value_of(value).is_map();
    const Node over = may_merge ? open(value, value.mark()) : value;
    if (!over.is_map()) return over;
    const Node before = open(base, over.mark());
    if (before.is_null() && before.incomplete()) return over.as_incomplete();
    const Node start = may_name_type(before) && !over.entry("type") ? word_as_type(before) : before;
    if (!start.is_map() || type_differs(start, over)) return over;
    return merge_maps(start, over);
  }

 private:
  Node value_of(const Node& node) const { return variables_ ? variables_->value_of(node, path_) : node; }
  Node open(const Node& node, const Mark& mark) {
    return variables_ ? variables_->open(node, path_, {}, mark) : node;
  }

  /// True if `over` changes, adds or (with null) removes the type.
  bool type_differs(const Node& base, const Node& over) const {
    const Entry* type = over.entry("type");
    if (!type) return false;
    const Entry* before = base.entry("type");
    return !before || !(value_of(before->value) == value_of(type->value));
  }

  Node merge_maps(const Node& base, const Node& over) {
    std::vector<Entry> entries = base.entries();
    std::unordered_map<std::string, size_t> index;
    for (size_t i = 0; i < entries.size(); ++i) index.emplace(entries[i].key, i);
    for (const Entry& entry : over.entries()) {
      const auto [place, fresh] = index.emplace(entry.key, entries.size());
      if (fresh) {
        entries.push_back(entry);
        continue;
      }
      const Node before = entries[place->second].value;
      path_.push_back(entry.key);
      const Node value = in_place_of(before, merge(before, entry.value));
      path_.pop_back();
      entries[place->second] = {entry.key, entry.mark, value, entry.implied};
    }
    Node result = Node::map(std::move(entries), base.mark());
    if (base.variables()) result = Node::deferred(result, base.variables());
    return base.incomplete() || over.incomplete() ? result.as_incomplete() : result;
  }

  std::vector<std::string_view> path_;
  VariableOpener* variables_;
};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

/// A `key=value` argument, and places in it.
class ArgumentText {
 public:
  /// `name` is the name of the argument, such as "argument 3".
  ArgumentText(const std::string& name, std::string_view text) : text_(text), source_(name, text) {}

  /// Returns the place of `part`, which must be a part of the text.
  Mark mark(std::string_view part) const {
    auto begin = static_cast<size_t>(part.data() - text_.data());
    int line = 0;
    while (line + 1 < source_.lines() && begin > source_.line(line).size()) {
      begin -= source_.line(line).size() + 1;
      ++line;
    }
    return without_line(source_.mark(line, static_cast<int>(begin), part.size()));
  }

  /// Parses the YAML from `part` to the end of the text.
  Node parse(std::string_view part, Diagnostics& diagnostics) const {
    // Blanks in front of it give the nodes the same places as in the argument.
    const auto begin = static_cast<size_t>(part.data() - text_.data());
    std::string padded(begin, ' ');
    padded += part;
    Diagnostics inside;
    const Node node = parse_yaml(padded, mark(part).file, inside);
    for (Problem problem : inside.errors()) {
      problem.mark = in_argument(problem.mark);
      diagnostics.add(std::move(problem));
    }
    return inside.has_errors() ? Node::unknown(mark(part)) : in_argument(node);
  }

 private:
  static Mark without_line(Mark mark) {
    mark.line = 0;
    return mark;
  }

  /// Restores, in the line of a mark, the text that was replaced by blanks.
  Mark in_argument(Mark mark) const {
    const std::string_view line = source_.line(0);
    for (size_t i = 0; mark.line == 1 && i < mark.text.size(); ++i) {
      const size_t column = i + static_cast<size_t>(mark.text_column) - 1;
      if (mark.text[i] != ' ' || column >= line.size()) break;
      mark.text[i] = line[column];
    }
    return without_line(std::move(mark));
  }

  Node in_argument(const Node& node) const {
    const Mark mark = in_argument(node.mark());
    if (node.is_list()) {
      std::vector<Node> elements;
      for (const Node& element : node.elements()) elements.push_back(in_argument(element));
      return Node::list(std::move(elements), mark);
    }
    if (!node.is_map()) return node.is_null() ? node.at(mark).as_removal_of_nothing() : node.at(mark);
    std::vector<Entry> entries;
    for (const Entry& entry : node.entries())
      entries.push_back({entry.key, in_argument(entry.mark), in_argument(entry.value)});
    return Node::map(std::move(entries), mark);
  }

  std::string_view text_;
  SourceText source_;
};

/// Applies one `key=value` to the tree, from the top down.
class Assignment {
 public:
  Assignment(std::string_view path, bool append, Node value, const ArgumentText& text, const Rules& rules,
             VariableOpener* variables, Diagnostics& diagnostics)
      : keys_(split(path, '.')),
        append_(append),
        value_(std::move(value)),
        text_(text),
        rules_(rules),
        variables_(variables),
        diagnostics_(diagnostics) {}

  Node apply(const Node& root) const { return set(root, 0); }

 private:
  bool at_whole_section(size_t depth) const {
    return depth == 1 && std::count(rules_.replaced_whole.begin(), rules_.replaced_whole.end(), keys_[0]) > 0;
  }

  std::span<const std::string_view> keys_to(size_t depth) const { return std::span(keys_).first(depth); }

  std::string path_to(size_t depth) const { return fmt::format("{}", fmt::join(keys_to(depth), ".")); }

  /// Returns the value of the node at `depth`, if it is only a variable.
  Node open(const Node& node, size_t depth) const {
    if (!variables_) return node;
    const Mark mark = key_mark(std::max<size_t>(depth, 1) - 1);
    return variables_->open(node, keys_to(depth), std::span(keys_).subspan(depth), mark);
  }

  Node value_of(const Node& node, size_t depth) const {
    return variables_ ? variables_->value_of(node, keys_to(depth)) : node;
  }

  Node merge_into(const Node& node, size_t depth, const Node& value) const {
    return Merger({keys_.begin(), keys_.begin() + static_cast<ptrdiff_t>(depth)}, variables_)
        .merge(node, value);
  }

  Mark key_mark(size_t depth) const { return text_.mark(keys_[depth]); }

  Node set(const Node& closed, size_t depth) const {
    const bool replaces = depth == keys_.size() && !append_;
    const Node node = replaces ? closed : open(closed, depth);
    if (node.is_null() && node.incomplete()) return node;
    const bool last = depth + 1 == keys_.size();
    if (depth == keys_.size())
      return append_ ? appended(node) : at_whole_section(depth) ? value_ : merge_into(node, depth, value_);
    if (node.is_list()) return set_in_list(node, depth);
    Node map = node;
    if (node.is_scalar()) {
      const bool pairs = at_whole_section(depth) && node.text().find(':') != std::string::npos;
      map = pairs                 ? pairs_to_map(node, "a:b;c:d", diagnostics_)
            : may_name_type(node) ? word_as_type(node)
                                  : Node::null(key_mark(depth));
    }
    const std::string key(keys_[depth]);
    if (key == "type" && last && !append_)
      return merge_into(map, depth, Node::map({{key, key_mark(depth), value_}}, key_mark(depth)));
    const Entry* entry = map.entry(key);
    const Mark mark = entry && !last ? entry->mark : key_mark(depth);
    if (!entry) return map.with({key, mark, set(Node::null(mark), depth + 1)});
    return map.with({key, mark, in_place_of(entry->value, set(entry->value, depth + 1))});
  }

  Node appended(const Node& node) const {
    if (node.is_map()) {
      diagnostics_.error(key_mark(keys_.size() - 1),
                         fmt::format("`{}` is a map; `+=` appends to a list", path_to(keys_.size())),
                         fmt::format("write `{}.NAME=...`", path_to(keys_.size())));
      return node;
    }
    std::vector<Node> elements = node.elements();
    if (node.is_scalar()) elements.push_back(node);
    const Node value = value_of(value_, keys_.size()).is_list() ? open(value_, keys_.size()) : value_;
    if (value.is_list()) {
      elements.insert(elements.end(), value.elements().begin(), value.elements().end());
    } else {
      elements.push_back(value);
    }
    const Node list = Node::list(std::move(elements), value.mark());
    const bool has_default = keys_[0] != "vars" && (node.is_null() || node.extends_default());
    return has_default ? list.as_extension() : list;
  }

  /// An entry of a list as paths address it: the name of its layer, and its options.
  struct Element {
    std::string layer;  ///< empty for a map with several keys, or a value
    Node options;
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
    return element;
  }

  /// Returns `node` with `change` applied to its options.
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
      if (list.extends_default()) {
        diagnostics_.error(key_mark(depth),
                           fmt::format("the list `{}` begins with its default", path_to(depth)),
                           fmt::format("write the whole list: `{}=[...]`", path_to(depth)));
        return list;
      }
      if (*index < 0 || *index >= static_cast<int64_t>(elements.size())) {
        diagnostics_.error(
            key_mark(depth), fmt::format("`{}` has no entry {}", path_to(depth), *index),
            elements.empty() ? "the list is empty" : fmt::format("entries are 0 to {}", elements.size() - 1));
        return list;
      }
      elements[*index] = set_by_index(elements[*index], depth + 1);
      return list.with_elements(std::move(elements));
    }
    const auto is_unknown = [&](const Node& entry) { return variables_ && variables_->is_unknown(entry); };
    if (const auto unknown = std::ranges::find_if(elements, is_unknown); unknown != elements.end()) {
      diagnostics_.error(
          key_mark(depth),
          fmt::format("`{}` has an entry `{}`, whose value is not known here: it may be `{}`, too",
                      path_to(depth), unknown->text(), keys_[depth]),
          fmt::format("address entries by index, such as `{}.0`", path_to(depth)));
      return list;
    }
    const std::vector<Names> seen = see(elements);
    const std::vector<bool> chosen = choose(seen, keys_[depth]);
    if (std::count(chosen.begin(), chosen.end(), true) == 0) {
      diagnostics_.error(key_mark(depth), fmt::format("`{}` has no entry `{}`", path_to(depth), keys_[depth]),
                         did_you_mean(keys_[depth], names_of(seen)));
    }
    for (size_t i = 0; i < elements.size(); ++i) {
      if (chosen[i]) {
        elements[i] = change_options(open_entry(elements[i], i, depth),
                                     [&](const Node& options) { return set(options, depth + 1); });
      }
    }
    return list.with_elements(std::move(elements));
  }

  /// Returns the value of entry `index` of the list at `depth`, if it is only a variable.
  Node open_entry(const Node& entry, size_t index, size_t depth) const {
    if (!variables_) return entry;
    const std::string number = std::to_string(index);
    std::vector<std::string_view> path(keys_.begin(), keys_.begin() + static_cast<ptrdiff_t>(depth));
    path.push_back(number);
    return variables_->open(entry, path, std::span(keys_).subspan(depth + 1), key_mark(depth));
  }

  /// The words that address an entry of a list.
  struct Names {
    std::string layer;
    std::string name;  ///< value of `name:` in the options
  };

  Node usual_value_of(const Node& node) const { return variables_ ? variables_->usual_value_of(node) : node; }
  std::string usual_text_of(const std::string& text) const {
    return variables_ ? variables_->usual_text_of(text) : text;
  }

  /// Returns the names of the entries of a list, with the values of variables.
  std::vector<Names> see(const std::vector<Node>& elements) const {
    std::vector<Names> seen;
    for (const Node& node : elements) {
      const Element element = look_at(usual_value_of(node));
      const Node options = usual_value_of(element.options);
      const Node* name = options.find("name");
      seen.push_back({usual_text_of(element.layer), name ? usual_text_of(name->text()) : ""});
    }
    return seen;
  }

  /// Sets a key of an entry that is addressed by index. After the index the layer's name may be repeated or
  /// left out: `block.0.SelfAttention.dropout`, `block.0.dropout`.
  Node set_by_index(const Node& closed, size_t depth) const {
    if (depth == keys_.size() && !append_) return value_;
    const Node element = open(closed, depth);
    if (element.is_null() && element.incomplete()) return element;
    if (depth == keys_.size()) return appended(element);
    const std::string layer = usual_text_of(look_at(element).layer);
    const size_t below = !layer.empty() && layer == keys_[depth] ? depth + 1 : depth;
    return change_options(element, [&](const Node& options) { return set(options, below); });
  }

  static std::vector<bool> choose(const std::vector<Names>& seen, std::string_view key) {
    std::vector<bool> by_name, by_layer;
    for (const Names& entry : seen) {
      by_name.push_back(entry.name == key);
      by_layer.push_back(entry.layer == key);
    }
    return std::count(by_name.begin(), by_name.end(), true) > 0 ? by_name : by_layer;
  }

  static std::vector<std::string> names_of(const std::vector<Names>& seen) {
    std::vector<std::string> names;
    for (const Names& entry : seen) {
      for (const std::string& name : {entry.name, entry.layer}) {
        if (!name.empty() && std::count(names.begin(), names.end(), name) == 0) names.push_back(name);
      }
    }
    return names;
  }

  std::vector<std::string_view> keys_;
  bool append_;
  Node value_;
  const ArgumentText& text_;
  const Rules& rules_;
  VariableOpener* variables_;
  Diagnostics& diagnostics_;
};

/// Parses the value of an argument: lists, maps and quoted texts are YAML; everything else is taken
/// literally, so that `*.gz`, `-` and `a: b` need no second pair of quotes.
Node argument_value(std::string_view value, const ArgumentText& text, Diagnostics& diagnostics) {
  if (value == "null" || value == "~") return Node::null(text.mark(value)).as_removal_of_nothing();
  if (std::string_view("[{\"'").find(value.front()) == std::string_view::npos)
    return Node::scalar(std::string(value), text.mark(value));
  return text.parse(value, diagnostics);
}

}  // namespace

Node merge(const Node& base, const Node& over, VariableOpener* variables) {
  return Merger({}, variables).merge(base, over);
}

Node apply_argument(const Node& root, std::string_view argument, const Mark& mark, Diagnostics& diagnostics,
                    const Rules& rules, VariableOpener* variables) {
  const ArgumentText source(mark.file, argument);
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
  if (std::ranges::any_of(keys, [](std::string_view key) { return key.size() > kLongestKey; })) {
    diagnostics.error(mark, fmt::format("a key of more than {} bytes", kLongestKey));
    return root;
  }
  if (std::any_of(keys.begin(), keys.end(), [](std::string_view key) { return key.empty(); })) {
    diagnostics.error(mark, fmt::format("`{}` is not a path of keys", path),
                      "write for example `train.steps=100`");
    return root;
  }
  if (keys.size() > kDeepestNesting) {
    diagnostics.error(mark, fmt::format("a path of more than {} keys", kDeepestNesting));
    return root;
  }
  if (SourceText(mark.file, argument).first_stray_byte()) {
    diagnostics.error(mark, fmt::format("`{}` is no text in UTF-8", argument));
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
  if (keys.front() == "shared_layout") {
    diagnostics.error(mark, "`shared_layout` stands in files only: it is about the layouts of its file",
                      "put the layout into a file of its own");
    return root;
  }
  const Node value = argument_value(text, source, diagnostics);
  return Assignment(path, append, value, source, rules, variables, diagnostics).apply(root);
}

}  // namespace mtf::config
