// The options of sources of data (`data.train`, `evaluate.datasets`). A source is one file of data/sources, or of
// data/text for texts, with its options and its registration:
//
//   struct IdentityOptions final : SourceOptions {
//     static constexpr std::string_view type_name = "identity";
//     int64_t size = 16;
//     std::unique_ptr<Source> open(const SourceContext& context) const override { ... }
//   };
//   void describe(config::Visitor& visit, IdentityOptions& options) { visit("size", options.size, "..."); }
//   const config::Registration<SourceOptions, IdentityOptions> identity;
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/sides.h"
#include "data/source.h"
#include "engine/config/choice.h"

namespace mtf {

struct SourceContext;  // data/text/text_settings.h

/// Receives a text and the side that it belongs to.
using TextUse = std::function<void(Side, std::string_view)>;

struct SourceOptions {
  static constexpr std::string_view default_type = "idx";  // until the options are read
  virtual ~SourceOptions() = default;
  /// Opens the source. Throws Error (kData): files that are missing at their places in the configuration, what does not
  /// fit together at the mark of the context, and wrong files by their paths.
  virtual std::unique_ptr<Source> open(const SourceContext& context) const = 0;
  /// All paths that the options name.
  virtual std::vector<config::Path*> paths() { return {}; }
  /// Makes the source read this file, or what the path means to it, in place of its files. False where the name is not
  /// that of a file that alone can be the source.
  virtual bool read_from(const config::Path& /*path*/) { return false; }
  /// The features that open() would give, without looking at any file; nothing when only the files tell them. Those of
  /// texts follow from `data.sequence_length` and the sizes of the vocabularies.
  virtual std::optional<std::vector<Feature>> declared_features(const BySide<int64_t>& /*lengths*/,
                                                                const BySide<int64_t>& /*sizes*/) const {
    return std::nullopt;
  }
  /// A feature that is always equal to this one; empty: there is none. Files of tensors need only one of the two.
  virtual std::string same_feature(const std::string& /*feature*/) const { return {}; }

  /// True where the examples are rows of tokens, for which `data.vocabulary` and `data.sequence_length` are needed.
  virtual bool has_tokens() const { return false; }
  /// Whether `data.split` can divide the examples.
  virtual bool can_be_split() const { return true; }
  /// Calls `use` with each text of the files: what a vocabulary is trained on.
  virtual void for_each_text(const Mark& /*mark*/, const TextUse& /*use*/) const {}
};
using SourceChoice = config::Choice<SourceOptions>;

/// Pointers to the paths of some lists, one list after the other.
inline std::vector<config::Path*> pointers_to(std::initializer_list<std::vector<config::Path>*> lists) {
  std::vector<config::Path*> pointers;
  for (std::vector<config::Path>* list : lists) {
    for (config::Path& path : *list) pointers.push_back(&path);
  }
  return pointers;
}

}  // namespace mtf
