// Resolves `$name`, `${expression}` and `$$` in texts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config/node.h"

namespace mtf::config {

/// Returns the variables of a configuration, with their references to each other resolved. `vars` is a map or
/// null.
std::shared_ptr<const Variables> resolve_variables(const Node& vars, Diagnostics& diagnostics);

/// Returns `node` with all references resolved by `variables`. The values of the map at the path `deferred` only keep the
/// variables, for substitute().
Node resolve(const Node& node, const std::shared_ptr<const Variables>& variables,
             const std::vector<std::string>& deferred, Diagnostics& diagnostics);

/// Limits the size of what variables insert, so that variables made of variables cannot exhaust the memory.
class Expansion {
 public:
  explicit Expansion(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  /// Returns `value`, or nothing (reported once) if it makes the configuration too large or too deep.
  std::optional<Node> take(const Node& value, const Mark& mark);

 private:
  /// Subtracts the size of `node` from what is left.
  bool fits(const Node& node, int levels);

  Diagnostics& diagnostics_;
  int64_t left_ = kMostValues;  ///< how many values may still be inserted; negative: too many
};

/// Opens values that are only a variable, such as `optimizer: $adam`, where something is merged into them or is set
/// below them. What it inserts is resolved later, like all other values.
class VariableOpener {
 public:
  /// `vars`: the variables of all files and arguments, unresolved; nothing while these are merged themselves.
  /// Below `deferred`, names may be arguments of blocks.
  VariableOpener(std::optional<Node> vars, std::vector<std::string> deferred, Diagnostics& diagnostics)
      : vars_(std::move(vars)),
        deferred_(std::move(deferred)),
        diagnostics_(diagnostics),
        expansion_(diagnostics) {}

  /// The keys from the root to a value.
  using Keys = std::span<const std::string_view>;

  /// Returns the value of the variable that `node` consists of, if it is known at the path `keys`; otherwise `node`.
  Node value_of(const Node& node, Keys keys) const;

  /// Returns the value of the variable that `node` consists of, also where an argument of a block may take its place.
  Node usual_value_of(const Node& node) const;
  /// Returns `text` with the usual values of its variables; the same text if they are not all known.
  std::string usual_text_of(const std::string& text);
  /// True for a variable whose value is only known when all variables are merged.
  bool is_unknown(const Node& node) const;

  /// Returns the value of value_of() for the place of `node`. Reports, with the place `mark`, a variable whose value is not
  /// known at `keys`, and returns an unknown value; `below` are the keys that are set below the value.
  Node open(const Node& node, Keys keys, Keys below, const Mark& mark);

  /// Returns the names of the variables that open() opened.
  const std::set<std::string>& opened() const { return opened_; }

 private:
  bool knows_values(Keys keys) const;
  void refuse(const std::string& name, Keys keys, Keys below, const Mark& mark) const;

  std::optional<Node> vars_;
  std::vector<std::string> deferred_;
  Diagnostics& diagnostics_;
  Expansion expansion_;
  std::set<std::string> opened_;
  std::shared_ptr<const Variables> resolved_;  ///< `vars_` with references resolved, once they are needed
};

/// Returns the names to which the text refers.
std::set<std::string> references(std::string_view text);
/// The same for all keys and values of `node`.
std::set<std::string> references(const Node& node);

}  // namespace mtf::config
