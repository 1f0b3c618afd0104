// Types of values with their own notation: intervals, durations, byte sizes, meshes, `auto`, named maps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/nearest.h"
#include "engine/core/mesh.h"
#include "engine/core/shape.h"

namespace mtf::config {

/// A duration: `30s`, `10min`, `2h`.
struct Duration {
  double seconds = 0;
  friend bool operator==(const Duration&, const Duration&) = default;
};

/// How often something happens: every number of steps (`500`, `500 steps`; 0: never), of seconds (`10min`) or of epochs
/// (`1epoch`).
struct Interval {
  enum class Unit { kSteps, kSeconds, kEpochs };
  double value = 0;
  Unit unit = Unit::kSteps;

  static Interval steps(int64_t n) { return {static_cast<double>(n), Unit::kSteps}; }
  static Interval seconds(double n) { return {n, Unit::kSeconds}; }
  static Interval epochs(double n) { return {n, Unit::kEpochs}; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// A memory size: a number of bytes, or a number with KB MB GB TB (powers of 1000) or KiB MiB GiB TiB (powers
/// of 1024).
struct Bytes {
  int64_t value = 0;
  friend bool operator==(const Bytes&, const Bytes&) = default;
};

/// The path of a file or directory, in which a leading `~` was replaced by the home directory.
struct Path {
  std::string text;
  Mark mark = {};  ///< its place in the configuration
  bool empty() const { return text.empty(); }
  friend bool operator==(const Path& a, const Path& b) { return a.text == b.text; }
};
/// Replaces `~` in `~` and `~/x` by the home directory ($HOME, or that of the user database if $HOME is
/// empty).
std::string expand_home(std::string_view path);

/// A name of something that is defined elsewhere, with its place, for the error message if nothing has this
/// name.
struct Name {
  std::string text;
  Mark mark;  ///< unknown if the name is a default

  Name() = default;
  Name(std::string text, Mark mark = {}) : text(std::move(text)), mark(std::move(mark)) {}
  Name(const char* text) : text(text) {}
  bool empty() const { return text.empty(); }
  friend bool operator==(const Name& a, const Name& b) { return a.text == b.text; }
};

/// The dimensions of a mesh; a size may be `auto` until the number of positions is known.
struct MeshSizes {
  struct Axis {
    std::string name;
    std::optional<int64_t> size;  ///< nothing: auto
    friend bool operator==(const Axis&, const Axis&) = default;
  };
  std::vector<Axis> axes;

  /// Returns the mesh for `positions` positions. Throws Error (kConfig) if the sizes that are given do not
  /// divide it.
  Mesh resolve(int64_t positions) const;
  bool has_auto() const;
  friend bool operator==(const MeshSizes&, const MeshSizes&) = default;
};

/// A value or the word `auto`.
template <class T>
struct Auto {
  std::optional<T> value;  ///< nothing: auto
  friend bool operator==(const Auto&, const Auto&) = default;
};

/// A map from names that the user chooses to values, in the order in which they are written. `name: null`
/// removes an entry.
template <class T>
struct Named : std::vector<std::pair<std::string, T>> {
  using std::vector<std::pair<std::string, T>>::vector;
  const T* find(std::string_view name) const {
    for (const auto& [key, value] : *this) {
      if (key == name) return &value;
    }
    return nullptr;
  }
};

/// A word of an enum. `EnumNames enum_names(E)` beside the enum lists them:
///   inline config::EnumNames enum_names(Mode) { return {{"train", Mode::kTrain}, {"trace", Mode::kTrace}}; }
struct EnumName {
  template <class E>
  EnumName(std::string_view name, E value) : name(name), value(static_cast<int64_t>(value)) {}
  std::string name;
  int64_t value;
};
/// If several names have the same value, dumps write the first; the others are synonyms.
using EnumNames = std::vector<EnumName>;
/// Names that other programs use for the words of an enum, or words that are near; used for hints.
using CommonNames = std::span<const CommonName>;

}  // namespace mtf::config
