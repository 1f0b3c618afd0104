// The description of a struct: the fields and attributes that `describe` (schema.h) gives for each key, and
// the interface that reads, writes and explains a type.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/config/known_keys.h"
#include "engine/config/node.h"
#include "engine/core/dtype.h"
#include "engine/core/layout.h"
#include "engine/core/shape.h"

namespace mtf::config {

class Type;
class Visitor;

/// Says whether a key may have another value when a run is resumed. kInherit: the section around it decides.
enum class Resume { kInherit, kFree, kReported, kError };

/// The bounds of a number, or the valid texts.
struct Constraint {
  std::optional<double> low, high;
  bool above_low = false;  ///< true if `low` itself is not allowed
  std::vector<std::string> words;

  /// Returns "greater than 0", "from 0 to 1"; empty without bounds.
  std::string to_string() const;
  bool allows(double value) const;
};

/// One key of a struct.
struct Field {
  std::string name;
  std::string meaning;
  const Type* type = nullptr;
  void* value = nullptr;
  Constraint constraint;
  bool required = false;
  std::string_view off;  ///< the value that turns the feature off, for users who write null; may be empty
  Resume resume = Resume::kInherit;
  Resume resume_type = Resume::kInherit;  ///< applies to the `type` of a sum type; kInherit: as its options
};

/// The path of a value that is being parsed, with what is needed to report its errors.
struct Place {
  Diagnostics& diagnostics;
  std::string path;  ///< "train.steps"; empty at the top
  Constraint constraint;
  Language language = nullptr;  ///< for hints at unknown keys; nullptr: only keys of the same map are named

  Place at(std::string_view key) const;
  /// Returns "`train.steps`".
  std::string name() const;
  /// Reports "`train.steps` must be a whole number, not the text `abc`".
  void wrong_type(const Node& node, std::string_view expected, std::string hint = {}) const;
  /// Reports arguments `key=null` that remove nothing from `map`, whose keys are names that the user chose.
  void check_removals(const Node& map, const Node& defaults) const;
};

/// Reports errors of checks over several keys of one struct (Visitor::check), at the place of a key.
class Report {
 public:
  Report(const Node& node, const Place& place) : node_(node), place_(place) {}
  /// `path`: a key, or what is below it, such as "split.dev"; if it is not given, the error is at the map.
  void error(std::string_view path, std::string message, std::string hint = {}) const;
  bool given(std::string_view key) const { return node_.find(key) != nullptr; }
  /// True for a key that is given, but not in this map itself (Entry::implied).
  bool implied(std::string_view key) const { return given(key) && node_.entry(key)->implied; }
  /// The place of error(path), for checks that come later.
  Mark mark(std::string_view path) const { return node_.mark_of(path); }

 private:
  const Node& node_;
  const Place& place_;
};

/// The fields of a struct or of one alternative, for help. `owner` keeps their values alive.
struct Section {
  std::string title;  ///< "" of a struct, "type: adam" of an alternative, "NAME: type: adam" in a map
  std::vector<Field> fields;
  std::shared_ptr<void> owner;
};

/// Reads, writes and explains one C++ type. There is one stateless object for each type.
class Type {
 public:
  virtual ~Type() = default;
  /// Returns a description such as "whole number" or "list of texts".
  virtual std::string name() const = 0;
  /// True if a node of this kind can have this type; selects the alternative of a sum type.
  virtual bool accepts(const Node& node) const = 0;
  /// Sets *value, which holds the default, from `node` (not null). Reports errors; the default is then kept.
  virtual void parse(const Node& node, void* value, const Place& place) const = 0;
  virtual Node dump(const void* value) const = 0;
  /// Returns the keys in this type; with `value` = nullptr, those of a default value.
  virtual std::vector<Section> sections(const void* /*value*/) const { return {}; }
};

// Attributes of a field.

struct Bounds {
  std::optional<double> low, high;
  bool above_low = false;
  void apply(Field& field) const;
};
inline constexpr Bounds positive{0.0, std::nullopt, true};
inline constexpr Bounds non_negative{0.0, std::nullopt, false};
inline constexpr Bounds probability{0.0, 1.0, false};
inline constexpr Bounds at_least(double low) { return {low, std::nullopt, false}; }
inline constexpr Bounds at_most(double high) { return {std::nullopt, high, false}; }

struct OneOf {
  std::vector<std::string> words;
  void apply(Field& field) const { field.constraint.words = words; }
};
inline OneOf one_of(std::vector<std::string> words) { return {std::move(words)}; }

struct Required {
  void apply(Field& field) const { field.required = true; }
};
inline constexpr Required required;

/// An attribute that names the value that turns the feature of a key off. A user who writes null, which
/// stands for the default here, gets it as a hint.
struct OffAt {
  std::string_view value;
  void apply(Field& field) const { field.off = value; }
};
inline constexpr OffAt off_at(std::string_view value) { return {value}; }

struct OnResume {
  Resume resume;
  void apply(Field& field) const { field.resume = resume; }
};
inline constexpr OnResume free_on_resume{Resume::kFree};
inline constexpr OnResume reported_on_resume{Resume::kReported};
inline constexpr OnResume fixed_on_resume{Resume::kError};

/// An attribute of a sum type: its `type` must not change when a run is resumed, whatever its options allow.
struct FixedType {
  void apply(Field& field) const { field.resume_type = Resume::kError; }
};
inline constexpr FixedType fixed_type_on_resume;

// The visitor.

template <class T>
const Type& type_of();

/// Collects the fields of one value; `describe` calls it once for each key.
class Visitor {
 public:
  template <class T, class... Attributes>
  void operator()(std::string_view name, T& value, std::string_view meaning,
                  const Attributes&... attributes) {
    Field field;
    field.name = name;
    field.meaning = meaning;
    field.type = &type_of<T>();
    field.value = &value;
    (attributes.apply(field), ...);
    fields_.push_back(std::move(field));
  }
  /// At most (or exactly) one of these keys may be given.
  void at_most_one_of(std::vector<std::string> keys) { groups_.push_back({std::move(keys), false}); }
  void exactly_one_of(std::vector<std::string> keys) { groups_.push_back({std::move(keys), true}); }
  /// Adds a check that runs after all keys were parsed without errors.
  void check(std::function<void(const Report&)> check) { checks_.push_back(std::move(check)); }

  const std::vector<Field>& fields() const { return fields_; }
  /// Sets the fields from a map; reports unknown keys, missing keys and all errors below.
  void parse(const Node& node, const Place& place) const;
  /// Returns a map of all fields, including defaults.
  Node dump() const;

 private:
  struct Group {
    std::vector<std::string> keys;
    bool exactly;
  };
  void parse_entry(const Entry& entry, const Place& place) const;
  Node with_default(const Node& list, const Field& field, const Place& place) const;
  void report_unknown(const Entry& entry, const Place& place) const;
  std::vector<std::string> unknown_keys(const Node& node) const;
  void check_presence(const Node& node, const Place& place) const;

  std::vector<Field> fields_;
  std::vector<Group> groups_;
  std::vector<std::function<void(const Report&)>> checks_;
};

template <class T>
concept Described = requires(Visitor& visit, T& options) {
  describe(visit, options);
};

}  // namespace mtf::config
