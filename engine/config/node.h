// The merged configuration as a tree: null, scalar, list, or map in the order of writing. Every node and
// every key knows where it was written. Copies are cheap: nodes are immutable and shared.
//
//   const Node* steps = root.find("train")->find("steps");   // nullptr: absent or null
//   diagnostics.error(steps->mark(), "...");
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.h"

namespace mtf::config {

struct Entry;
struct Variables;

/// Lists and maps that a configuration can hold in each other: trees are walked recursively.
constexpr int kDeepestNesting = 64;
/// Values that a configuration can have, those of aliases and variables wherever they are used.
constexpr int64_t kMostValues = 30'000;
/// Bytes of a key: with all of them escaped, YAML still reads it back (1024 characters).
constexpr size_t kLongestKey = 200;

class Node {
 public:
  enum class Kind { kNull, kScalar, kList, kMap };

  /// Null, without a place.
  Node();
  static Node null(Mark mark);
  /// `quoted`: a string even if it looks like a number.
  static Node scalar(std::string text, Mark mark = {}, bool quoted = false);
  static Node list(std::vector<Node> elements, Mark mark = {});
  static Node map(std::vector<Entry> entries, Mark mark = {});

  Kind kind() const;
  bool is_null() const { return kind() == Kind::kNull; }
  bool is_scalar() const { return kind() == Kind::kScalar; }
  bool is_list() const { return kind() == Kind::kList; }
  bool is_map() const { return kind() == Kind::kMap; }

  const Mark& mark() const;
  /// The place of the characters [offset, offset + length) of a scalar's text, where the scalar stands on one
  /// line.
  Mark mark_within(size_t offset, size_t length) const;

  const std::string& text() const;            ///< of a scalar; empty for the others
  bool quoted() const;                        ///< of a scalar
  const std::vector<Node>& elements() const;  ///< of a list; empty for the others
  const std::vector<Entry>& entries() const;  ///< of a map; empty for the others

  /// A scalar that is a bare word (letters, digits, `_`, `-`; a letter first), such as a type name.
  bool is_word() const;
  /// The entry called `key`, null or not; nullptr when absent.
  const Entry* entry(std::string_view key) const;
  /// The value of `key`; nullptr when absent or null.
  const Node* find(std::string_view key) const;
  /// This map (null counts as an empty one) with `entry` in the place of the one with its key, or at the end.
  Node with(Entry entry) const;
  Node without(std::string_view key) const;
  /// The same value at another place.
  Node at(Mark mark) const;

  /// A value whose mistake has been reported: null, and a cause of no further messages.
  static Node unknown(Mark mark);
  /// A map that a syntax error cut short (keys may be missing without fault), or an unknown value.
  bool incomplete() const;
  Node as_incomplete() const;
  /// True when neither this nor anything in it is incomplete.
  bool is_complete() const;

  /// The variables of a scalar, or of a map's keys, whose `$names` are resolved later (block arguments); else
  /// nullptr.
  const std::shared_ptr<const Variables>& variables() const;
  static Node deferred(const Node& node, std::shared_ptr<const Variables> variables);

  /// "null", "true", "the number 3", "the text `abc`", "a list", "a map": for messages.
  std::string describe() const;

  /// Same values; places do not count.
  friend bool operator==(const Node& a, const Node& b);

 private:
  struct Data;
  explicit Node(std::shared_ptr<const Data> data);
  std::shared_ptr<const Data> data_;
};

/// One entry of a map.
struct Entry {
  std::string key;
  Mark mark;  ///< of the key
  Node value;
  /// `type` that came from a bare word (`optimizer: adam`, then `optimizer.clip_norm=1`): ignored where no
  /// type is meant.
  bool implied = false;
};

/// Values by name for `$name`.
struct Variables {
  std::vector<Entry> values;
  bool complete = true;  ///< false: a syntax error hides some
  const Node* find(std::string_view name) const;
};

/// A layer as it stands in a list: `name` or `{name: options}`.
struct LayerEntry {
  std::string name;
  Mark mark;     ///< of the name
  Node options;  ///< null when there are none
};
/// Reports anything but `name` or a map with one key; then returns an empty name.
LayerEntry layer_entry(const Node& node, Diagnostics& diagnostics);

/// The grammar "rows:2;cols:4" (separators space , . ;) as a map from names to texts with their places;
/// "batch:[pod,data]" has a list. A pair that is none is reported with `example` as hint; a name may occur
/// twice.
Node pairs_to_map(const Node& scalar, std::string_view example, Diagnostics& diagnostics);

/// Numbers and booleans as YAML writes them; nothing for other text. Infinity and NaN are no numbers.
std::optional<int64_t> to_integer(std::string_view text);
std::optional<double> to_number(std::string_view text);
std::optional<bool> to_bool(std::string_view text);

}  // namespace mtf::config
