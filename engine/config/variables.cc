#include "engine/config/variables.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "engine/base/nearest.h"
#include "engine/config/expression.h"
#include "engine/config/load.h"

namespace mtf::config {
namespace {

/// The number of variables that may refer to each other in a row.
constexpr size_t kLongestChain = 50;

/// A part of a text: a literal or a reference.
struct Piece {
  enum class Kind { kLiteral, kName, kExpression, kBroken };
  Kind kind;
  std::string text;              ///< the literal, the name, or the expression
  size_t begin = 0, length = 0;  ///< its place in the whole text
};

std::vector<Piece> pieces_of(std::string_view text) {
  std::vector<Piece> pieces;
  const auto literal = [&](std::string_view part, size_t begin) {
    if (pieces.empty() || pieces.back().kind != Piece::Kind::kLiteral) {
      pieces.push_back({Piece::Kind::kLiteral, {}, begin, 0});
    }
    pieces.back().text += part;
  };
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    size_t used = 0;
    if (rest[0] != '$') {
      used = std::min(rest.find('$'), rest.size());
      literal(rest.substr(0, used), at);
    } else if (rest.starts_with("$$")) {
      used = 2;
      literal("$", at);
    } else if (const size_t length = name_length(rest.substr(1))) {
      used = length + 1;
      pieces.push_back({Piece::Kind::kName, std::string(rest.substr(1, length)), at, used});
    } else if (rest.starts_with("${") && rest.find('}') != std::string_view::npos) {
      used = rest.find('}') + 1;
      std::string_view inside = rest.substr(2, used - 3);
      while (inside.starts_with(' ')) inside.remove_prefix(1);
      while (inside.ends_with(' ')) inside.remove_suffix(1);
      const bool name = !inside.empty() && name_length(inside) == inside.size();
      pieces.push_back({name ? Piece::Kind::kName : Piece::Kind::kExpression, std::string(inside), at, used});
    } else {
      used = 1;
      pieces.push_back({Piece::Kind::kBroken, "$", at, 1});
    }
    at += used;
  }
  return pieces;
}

/// Returns the value of a name; nothing if the name is unknown or its error has been reported.
using LookUp = std::function<std::optional<Node>(std::string_view name, const Mark& mark)>;

class Resolver {
 public:
  Resolver(LookUp look_up, Diagnostics& diagnostics)
      : look_up_(std::move(look_up)), diagnostics_(diagnostics) {}

  /// Returns a scalar with its references resolved. A text that is a single reference becomes the value
  /// itself, of any kind.
  Node resolve_scalar(const Node& scalar) const {
    if (scalar.text().find('$') == std::string::npos)
      return Node::scalar(scalar.text(), scalar.mark(), scalar.quoted());
    const std::vector<Piece> pieces = pieces_of(scalar.text());
    if (pieces.size() == 1 && pieces[0].kind != Piece::Kind::kLiteral) {
      const std::optional<Node> value = value_of(pieces[0], scalar);
      return value ? value->at(scalar.mark()) : Node::unknown(scalar.mark());
    }
    std::string text;
    for (const Piece& piece : pieces) {
      if (piece.kind == Piece::Kind::kLiteral) {
        text += piece.text;
        continue;
      }
      const std::optional<Node> value = value_of(piece, scalar);
      if (value && !value->is_scalar() && value->is_complete()) {
        diagnostics_.error(
            scalar.mark_within(piece.begin, piece.length),
            fmt::format("`{}` is {} and cannot be part of a text", piece.text, value->describe()));
      }
      if (!value || !value->is_scalar()) return Node::unknown(scalar.mark());
      text += value->text();
    }
    return Node::scalar(std::move(text), scalar.mark(), scalar.quoted());
  }

  std::string resolve_key(const Entry& entry) const {
    if (entry.key.find('$') == std::string::npos) return entry.key;
    const Node key = resolve_scalar(Node::scalar(entry.key, entry.mark));
    if (key.is_scalar()) return key.text();
    if (!key.is_null() && key.is_complete())
      diagnostics_.error(entry.mark,
                         fmt::format("`{}` is {} and cannot be a key", entry.key, key.describe()));
    return entry.key;
  }

 private:
  std::optional<Node> value_of(const Piece& piece, const Node& scalar) const {
    const Mark mark = scalar.mark_within(piece.begin, piece.length);
    if (piece.kind == Piece::Kind::kName) return look_up_(piece.text, mark);
    if (piece.kind == Piece::Kind::kBroken) {
      diagnostics_.error(mark, "a `$` without a name", "`$name`, \"${4 * name}\", or `$$` for a dollar sign");
      return std::nullopt;
    }
    bool unknown = false;
    const NumberOf number_of = [&](std::string_view name) -> std::string {
      const std::optional<Node> value = look_up_(name, mark);
      unknown = !value || !value->is_complete();
      if (unknown) throw ExpressionError{};
      if (!value->is_scalar() || value->quoted() || !to_number(value->text())) {
        throw ExpressionError{fmt::format("`{}` is {}, not a number", name, value->describe()), {}};
      }
      return value->text();
    };
    try {
      return Node::scalar(evaluate_expression(piece.text, number_of), mark);
    } catch (const ExpressionError& error) {
      if (!unknown)
        diagnostics_.error(mark, fmt::format("`${{{}}}`: {}", piece.text, error.message), error.hint);
      return std::nullopt;
    }
  }

  LookUp look_up_;
  Diagnostics& diagnostics_;
};

void report_unknown(std::string_view name, const Mark& mark, const std::vector<std::string>& known,
                    Diagnostics& diagnostics) {
  diagnostics.error(
      mark, fmt::format("unknown variable `{}`", name),
      known.empty() ? fmt::format("define it: `vars: {{{}: ...}}`", name) : did_you_mean(name, known));
}

/// The names of the entries that have a value.
std::vector<std::string> names_of(const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) {
    if (!entry.value.is_null()) names.push_back(entry.key);
  }
  return names;
}

/// Returns a copy of `node` in which `change` was applied to scalars and `key` to keys.
Node rebuild(const Node& node, const std::function<Node(const Node&)>& change,
             const std::function<std::string(const Entry&)>& key) {
  Node result = node;
  if (node.is_scalar()) return change(node);
  if (node.is_list()) {
    std::vector<Node> elements;
    for (const Node& element : node.elements()) elements.push_back(rebuild(element, change, key));
    result = node.with_elements(std::move(elements));
  } else if (node.is_map()) {
    std::vector<Entry> entries;
    for (const Entry& entry : node.entries()) {
      entries.push_back({key(entry), entry.mark, rebuild(entry.value, change, key), entry.implied});
    }
    result = Node::map(std::move(entries), node.mark());
  }
  return node.incomplete() ? result.as_incomplete() : result;
}

Node resolve_all(const Node& node, const Resolver& resolver) {
  return rebuild(
      node, [&](const Node& scalar) { return resolver.resolve_scalar(scalar); },
      [&](const Entry& entry) { return resolver.resolve_key(entry); });
}

/// Attaches the variables to every node that has references.
Node defer_all(const Node& node, const std::shared_ptr<const Variables>& variables) {
  const auto refers = [](const std::string& text) { return text.find('$') != std::string::npos; };
  if (node.is_scalar()) return refers(node.text()) ? Node::deferred(node, variables) : node;
  if (node.is_list()) {
    std::vector<Node> elements;
    for (const Node& element : node.elements()) elements.push_back(defer_all(element, variables));
    return node.with_elements(std::move(elements));
  }
  std::vector<Entry> entries;
  bool keys_refer = false;
  for (const Entry& entry : node.entries()) {
    entries.push_back({entry.key, entry.mark, defer_all(entry.value, variables), entry.implied});
    keys_refer = keys_refer || refers(entry.key);
  }
  if (!node.is_map()) return node;
  Node map = Node::map(std::move(entries), node.mark());
  if (node.incomplete()) map = map.as_incomplete();
  return keys_refer ? Node::deferred(map, variables) : map;
}

/// Resolves `node`, which stands at the first `depth` keys of `deferred`. The entries of the map at the end of that path only
/// keep the variables.
Node resolve_below(const Node& node, const Resolver& resolver,
                   const std::shared_ptr<const Variables>& variables,
                   const std::vector<std::string>& deferred, size_t depth) {
  if (deferred.empty() || !node.is_map()) return resolve_all(node, resolver);
  const auto resolved = [&](const Entry& entry) {
    if (depth == deferred.size()) return defer_all(entry.value, variables);
    if (entry.key != deferred[depth]) return resolve_all(entry.value, resolver);
    return resolve_below(entry.value, resolver, variables, deferred, depth + 1);
  };
  std::vector<Entry> entries;
  for (const Entry& entry : node.entries())
    entries.push_back({resolver.resolve_key(entry), entry.mark, resolved(entry), entry.implied});
  const Node result = Node::map(std::move(entries), node.mark());
  return node.incomplete() ? result.as_incomplete() : result;
}

/// Resolves variables that refer to each other; each is resolved once.
class VariableResolver {
 public:
  VariableResolver(const Node& vars, Diagnostics& diagnostics)
      : vars_(vars), diagnostics_(diagnostics), expansion_(diagnostics) {}

  std::shared_ptr<const Variables> all() {
    auto variables = std::make_shared<Variables>();
    variables->complete = !vars_.incomplete() && (vars_.is_null() || vars_.is_map());
    for (const Entry& entry : vars_.entries()) {
      if (entry.value.is_null() && !entry.value.incomplete()) continue;
      variables->values.push_back({entry.key, entry.mark, value_of(entry)});
    }
    return variables;
  }

 private:
  Node value_of(const Entry& entry) {
    if (const auto done = done_.find(entry.key); done != done_.end()) return done->second;
    open_.push_back(entry.key);
    const Resolver resolver([this](std::string_view name, const Mark& mark) { return look_up(name, mark); },
                            diagnostics_);
    const Node value = resolve_all(entry.value, resolver);
    open_.pop_back();
    done_.emplace(entry.key, value);
    return value;
  }

  std::optional<Node> look_up(std::string_view name, const Mark& mark) {
    const Entry* entry = vars_.entry(name);
    if (!entry || (entry->value.is_null() && !entry->value.incomplete())) {
      if (!vars_.incomplete()) report_unknown(name, mark, names_of(vars_.entries()), diagnostics_);
      return std::nullopt;
    }
    if (const auto first = std::find(open_.begin(), open_.end(), name); first != open_.end()) {
      const std::string way = fmt::format("{}", fmt::join(first + 1, open_.end(), ", "));
      diagnostics_.error(mark, fmt::format("variable `{}` refers to itself{}{}", name,
                                           way.empty() ? "" : " by way of ", way));
      return std::nullopt;
    }
    if (open_.size() > kLongestChain) {
      diagnostics_.error(mark,
                         fmt::format("more than {} variables in a row refer to each other", kLongestChain));
      return std::nullopt;
    }
    return expansion_.take(value_of(*entry), mark);
  }

  const Node& vars_;
  Diagnostics& diagnostics_;
  Expansion expansion_;
  std::vector<std::string> open_;
  std::map<std::string, Node, std::less<>> done_;
};

/// Returns the name if the node is a text that is only `$name`; otherwise an empty text.
std::string name_in(const Node& node) {
  if (!node.text().starts_with('$')) return {};
  const std::vector<Piece> pieces = pieces_of(node.text());
  return pieces.size() == 1 && pieces[0].kind == Piece::Kind::kName ? pieces[0].text : std::string();
}

}  // namespace

std::optional<Node> Expansion::take(const Node& value, const Mark& mark) {
  if (left_ >= 0 && !fits(value, kDeepestNesting)) {
    left_ = -1;
    diagnostics_.error(
        mark, "variables make the configuration too large",
        fmt::format("at most {} values, {} of them in each other", kMostValues, kDeepestNesting));
  }
  if (left_ < 0) return std::nullopt;
  return value;
}

bool Expansion::fits(const Node& node, int levels) {
  constexpr size_t kBytesPerValue = 100;
  left_ -= 1 + static_cast<int64_t>(node.text().size() / kBytesPerValue);
  if (levels < 0 || left_ < 0) return false;
  return std::ranges::all_of(node.elements(),
                             [&](const Node& element) { return fits(element, levels - 1); }) &&
         std::ranges::all_of(node.entries(),
                             [&](const Entry& entry) { return fits(entry.value, levels - 1); });
}

bool VariableOpener::knows_values(Keys keys) const {
  const bool is_deferred = !deferred_.empty() && keys.size() > deferred_.size() &&
                           std::ranges::equal(deferred_, keys.first(deferred_.size()));
  return vars_ && !is_deferred;
}

Node VariableOpener::value_of(const Node& node, Keys keys) const {
  return knows_values(keys) ? usual_value_of(node) : node;
}

Node VariableOpener::usual_value_of(const Node& node) const {
  if (!vars_) return node;
  Node value = node;
  for (size_t i = 0; i < kLongestChain; ++i) {
    const std::string name = name_in(value);
    if (name.empty()) return value;
    const Node* next = vars_->find(name);
    if (!next) return node;
    value = *next;
  }
  return node;
}

std::string VariableOpener::usual_text_of(const std::string& text) {
  if (!vars_ || text.find('$') == std::string::npos) return text;
  Diagnostics unreported;  // resolve() reports what is wrong with a text
  if (!resolved_) resolved_ = resolve_variables(*vars_, unreported);
  Expansion expansion(unreported);
  const LookUp look_up = [&](std::string_view name, const Mark& mark) -> std::optional<Node> {
    const Node* value = resolved_->find(name);
    return value ? expansion.take(*value, mark) : std::nullopt;
  };
  const Node value = Resolver(look_up, unreported).resolve_scalar(Node::scalar(text));
  return value.is_scalar() ? value.text() : text;
}

bool VariableOpener::is_unknown(const Node& node) const { return !vars_ && !name_in(node).empty(); }

Node VariableOpener::open(const Node& node, Keys keys, Keys below, const Mark& mark) {
  const std::string name = name_in(node);
  if (name.empty()) return node;
  if (!knows_values(keys)) {
    refuse(name, keys, below, mark);
    return Node::unknown(node.mark());
  }
  opened_.insert(name);
  const Node value = value_of(node, keys);
  // resolve_variables() reports what is wrong with a variable that is there.
  const Entry* entry = vars_->entry(name);
  if ((!entry || (entry->value.is_null() && !entry->value.incomplete())) && !vars_->incomplete())
    report_unknown(name, node.mark(), names_of(vars_->entries()), diagnostics_);
  if (!name_in(value).empty()) return Node::unknown(node.mark());
  const std::optional<Node> taken = expansion_.take(value, node.mark());
  return taken ? taken->at(node.mark()) : Node::unknown(node.mark());
}

void VariableOpener::refuse(const std::string& name, Keys keys, Keys below, const Mark& mark) const {
  const std::string path = fmt::format("{}", fmt::join(keys, "."));
  const std::string rest = below.empty() ? "" : fmt::format(".{}", fmt::join(below, "."));
  diagnostics_.error(
      mark, fmt::format("`{}` is the variable `${}`", path, name),
      vars_ ? fmt::format("set `{}` as a whole: `${}` may be an argument of the block", path, name)
            : fmt::format("set `vars.{}{}`", name, rest));
}

std::set<std::string> references(std::string_view text) {
  std::set<std::string> names;
  for (const Piece& piece : pieces_of(text)) {
    if (piece.kind == Piece::Kind::kName) names.insert(piece.text);
    if (piece.kind != Piece::Kind::kExpression) continue;
    for (size_t at = 0; at < piece.text.size();) {
      const size_t length = name_length(std::string_view(piece.text).substr(at));
      if (length > 0) names.insert(piece.text.substr(at, length));
      at += std::max<size_t>(length, 1);
    }
  }
  return names;
}

std::set<std::string> references(const Node& node) {
  std::set<std::string> names = references(node.text());
  for (const Node& element : node.elements()) names.merge(references(element));
  for (const Entry& entry : node.entries()) {
    names.merge(references(entry.key));
    names.merge(references(entry.value));
  }
  return names;
}

std::shared_ptr<const Variables> resolve_variables(const Node& vars, Diagnostics& diagnostics) {
  if (!vars.is_null() && !vars.is_map()) {
    diagnostics.error(vars.mark(),
                      fmt::format("`vars` is a map from names to values, not {}", vars.describe()));
  }
  for (const Entry& entry : vars.entries()) {
    if (name_length(entry.key) != entry.key.size()) {
      diagnostics.error(entry.mark, fmt::format("`{}` cannot be the name of a variable", entry.key),
                        "letters, digits and `_`; no digit first");
    }
  }
  return VariableResolver(vars, diagnostics).all();
}

Node resolve(const Node& node, const std::shared_ptr<const Variables>& variables,
             const std::vector<std::string>& deferred, Diagnostics& diagnostics) {
  Expansion expansion(diagnostics);
  const Resolver resolver(
      [&](std::string_view name, const Mark& mark) -> std::optional<Node> {
        if (const Node* value = variables->find(name)) return expansion.take(*value, mark);
        if (variables->complete) report_unknown(name, mark, names_of(variables->values), diagnostics);
        return std::nullopt;
      },
      diagnostics);
  return resolve_below(node, resolver, variables, deferred, 0);
}

namespace {

Node substitute_node(const Node& node, const Node& arguments, Expansion& expansion,
                     Diagnostics& diagnostics) {
  const std::shared_ptr<const Variables> variables = node.variables();
  const LookUp look_up = [&](std::string_view name, const Mark& mark) -> std::optional<Node> {
    if (const Node* value = arguments.find(name)) return expansion.take(*value, mark);
    if (const Node* value = variables->find(name)) return expansion.take(*value, mark);
    std::vector<std::string> known = names_of(arguments.entries());
    for (std::string& more : names_of(variables->values)) known.push_back(std::move(more));
    if (variables->complete) report_unknown(name, mark, known, diagnostics);
    return std::nullopt;
  };
  const Resolver resolver(look_up, diagnostics);
  if (node.is_scalar()) return variables ? resolver.resolve_scalar(node) : node;
  if (node.is_list()) {
    std::vector<Node> elements;
    for (const Node& element : node.elements())
      elements.push_back(substitute_node(element, arguments, expansion, diagnostics));
    return node.with_elements(std::move(elements));
  }
  if (!node.is_map()) return node;
  std::vector<Entry> entries;
  for (const Entry& entry : node.entries()) {
    entries.push_back({variables ? resolver.resolve_key(entry) : entry.key, entry.mark,
                       substitute_node(entry.value, arguments, expansion, diagnostics), entry.implied});
  }
  return Node::map(std::move(entries), node.mark());
}

void collect_references(const Node& node, std::vector<Entry>& found) {
  const auto collect = [&](std::string_view text) {
    for (const std::string& name : references(text)) {
      const Node* value = node.variables()->find(name);
      const bool known =
          std::any_of(found.begin(), found.end(), [&](const Entry& entry) { return entry.key == name; });
      if (value && !known) found.push_back({name, value->mark(), *value});
    }
  };
  if (node.variables() && node.is_scalar()) collect(node.text());
  for (const Node& element : node.elements()) collect_references(element, found);
  for (const Entry& entry : node.entries()) {
    if (node.variables()) collect(entry.key);
    collect_references(entry.value, found);
  }
}

}  // namespace

Node substitute(const Node& node, const Node& arguments, Diagnostics& diagnostics) {
  Expansion expansion(diagnostics);
  return substitute_node(node, arguments, expansion, diagnostics);
}

Node deferred_variables(const Node& node) {
  std::vector<Entry> found;
  collect_references(node, found);
  return Node::map(std::move(found));
}

}  // namespace mtf::config
