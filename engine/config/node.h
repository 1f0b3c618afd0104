// The merged configuration as a tree: a node is null, a scalar, a list, or a map in the order in which it was
// written. Every node and every key knows its place in the text. Nodes are immutable and shared, so that
// copies are cheap.
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

/// The depth to which lists and maps may be nested; trees are walked recursively.
constexpr int kDeepestNesting = 64;
/// The number of values that a configuration may have. Aliases and variables count wherever they are used.
constexpr int64_t kMostValues = 30'000;
/// The number of bytes that a key may have: even if all are escaped, it is shorter than the 1024 characters
/// that YAML can read.
constexpr size_t kLongestKey = 200;

class Node {
 public:
  enum class Kind { kNull, kScalar, kList, kMap };

  /// A null without a place.
  Node();
  static Node null(Mark mark);
  /// A `quoted` scalar is a string even if it looks like a number.
  static Node scalar(std::string text, Mark mark = {}, bool quoted = false);
  static Node list(std::vector<Node> elements, Mark mark = {});
  static Node map(std::vector<Entry> entries, Mark mark = {});

  Kind kind() const;
  bool is_null() const { return kind() == Kind::kNull; }
  bool is_scalar() const { return kind() == Kind::kScalar; }
  bool is_list() const { return kind() == Kind::kList; }
  bool is_map() const { return kind() == Kind::kMap; }

  const Mark& mark() const;
  /// Returns the place of the value at `path` below this node, such as "train.steps" or "layers.0"; if there is none, of
  /// the closest node on the way to it.
  Mark mark_of(std::string_view path) const;
  /// Returns the place of the characters [offset, offset + length) of a scalar's text, if the scalar is
  /// written on one line.
  Mark mark_within(size_t offset, size_t length) const;

  const std::string& text() const;            ///< text of a scalar; empty for other kinds
  bool quoted() const;                        ///< true for a scalar that was written in quotes
  const std::vector<Node>& elements() const;  ///< elements of a list; empty for other kinds
  const std::vector<Entry>& entries() const;  ///< entries of a map; empty for other kinds

  /// True for a scalar that is a bare word (letters, digits, `_`, `-`; a letter first), such as a type name.
  bool is_word() const;
  /// Returns the entry called `key`, whose value may be null; nullptr if there is none.
  const Entry* entry(std::string_view key) const;
  /// Returns the value of `key`; nullptr if there is none or if it is null.
  const Node* find(std::string_view key) const;
  /// Returns this map (null counts as an empty one) with `entry`, which replaces the entry of the same key or
  /// becomes the last one.
  Node with(Entry entry) const;
  Node without(std::string_view key) const;
  /// Returns this list with other elements.
  Node with_elements(std::vector<Node> elements) const;
  /// Returns the same value at another place.
  Node at(Mark mark) const;

  /// Returns a null in the place of a value whose error has been reported; it causes no further messages.
  static Node unknown(Mark mark);
  /// True for an unknown value, and for a map that a syntax error cut short: missing keys are then not
  /// reported.
  bool incomplete() const;
  Node as_incomplete() const;
  /// True if neither this node nor any node in it is incomplete.
  bool is_complete() const;

  /// True for the list that `key+=value` makes where nothing sets the key: its elements follow those of the default.
  bool extends_default() const;
  Node as_extension() const;

  /// True for the null of an argument that meets no entry which it could remove.
  bool removes_nothing() const;
  Node as_removal_of_nothing() const;

  /// Returns the variables for the `$names` of a scalar or of a map's keys that are resolved later (arguments
  /// of blocks); otherwise nullptr.
  const std::shared_ptr<const Variables>& variables() const;
  static Node deferred(const Node& node, std::shared_ptr<const Variables> variables);

  /// Describes the node for messages: "null", "true", "the number 3", "the text `abc`", "a list", "a map".
  std::string describe() const;

  /// Compares values; places are ignored.
  friend bool operator==(const Node& a, const Node& b);

 private:
  struct Data;
  explicit Node(std::shared_ptr<const Data> data);
  std::shared_ptr<const Data> data_;
};

/// One entry of a map.
struct Entry {
  std::string key;
  Mark mark;  ///< place of the key
  Node value;
  /// True for a `type` that came from a bare word (`optimizer: adam`, then `optimizer.clip_norm=1`), and for an option of a
  /// layer that stands in `model.layer_defaults` alone: it is ignored where the map has no such key.
  bool implied = false;
};

/// The variables, by name, that `$name` refers to.
struct Variables {
  std::vector<Entry> values;
  bool complete = true;  ///< false if a syntax error hides some of them
  const Node* find(std::string_view name) const;
};

/// Parses "rows:2;cols:4" (separators space , . ;) into a map from names to texts with their places;
/// "batch:[pod,data]" gives a list. A malformed pair is reported with `example` as hint. A name may occur
/// twice.
Node pairs_to_map(const Node& scalar, std::string_view example, Diagnostics& diagnostics);

/// Parse numbers and booleans as YAML writes them; nothing for other text. Infinity and NaN are not numbers
/// here.
std::optional<int64_t> to_integer(std::string_view text);
std::optional<double> to_number(std::string_view text);
std::optional<bool> to_bool(std::string_view text);

}  // namespace mtf::config
