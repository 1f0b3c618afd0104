// Options of objectives of pretraining: what is predicted of the texts of a source (`objective:` of a source of texts).
//
//   data: {train: {type: text, path: english.txt, objective: {type: span_corruption, noise_density: 0.15}}}
//
// An objective is one file of objectives/ with its options and its registration:
//
//   struct PrefixOptions final : ObjectiveOptions {
//     static constexpr std::string_view type_name = "prefix_lm";
//     ...
//   };
//   const config::Registration<ObjectiveOptions, PrefixOptions> prefix;
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/sides.h"
#include "data/source.h"
#include "data/vocabulary/vocabulary.h"
#include "engine/config/choice.h"

namespace mtf {

struct WeightedObjective;  // data/text/objective.h

struct ObjectiveOptions {
  virtual ~ObjectiveOptions() = default;
  /// Returns the tokens of a row on each side, 0 for a side that the rows do not have, where `data.sequence_length` says
  /// `given`. Throws Error (kConfig) for lengths that do not suit.
  virtual BySide<int64_t> row(const BySide<int64_t>& given) const = 0;
  /// The features of rows of these lengths with ids of a vocabulary of `size`.
  virtual std::vector<Feature> features(const BySide<int64_t>& row, int64_t size) const = 0;
  /// True if inputs and targets of an example are joined into one text of `targets`.
  virtual bool joins_pairs() const { return false; }
  /// True where the lines of a text are sentences of which examples are put together: each is encoded by itself.
  virtual bool lines_are_sentences() const { return false; }
  /// One objective, or several that take turns; all have these features. Throws Error (kConfig) where the vocabulary does
  /// not suit.
  virtual std::vector<WeightedObjective> make(const BySide<int64_t>& row,
                                              std::shared_ptr<const Vocabulary> vocabulary) const = 0;
};
using ObjectiveChoice = config::Choice<ObjectiveOptions>;

}  // namespace mtf
