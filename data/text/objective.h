// Objectives of pretraining make examples of texts. The texts are cut into pieces of tokens (piece_store.h), which stay in
// the token store. When a row is read, each of its pieces becomes an example. What is random in it is drawn by the seed, the
// number of the piece and the epoch alone, so that it is the same on every layout, thread and restart, and another one in
// each epoch. How much room an example takes follows from the number of its tokens, so that rows are packed once.
//
//   const std::unique_ptr<Source> source = make_objective_source(options, tokens, settings, seed, mark);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/draws.h"
#include "data/text/epoch_source.h"
#include "data/text/objective_options.h"
#include "data/text/piece_store.h"
#include "data/text/text_settings.h"

namespace mtf {

/// The features of a row while examples are put into it: [features][entries], without padding.
using ObjectiveRow = std::vector<std::vector<int32_t>>;

/// Makes examples. Immutable: several threads may use one.
class Objective {
 public:
  virtual ~Objective() = default;
  virtual PieceRules pieces() const = 0;
  /// The capacity of a row on each side, and the most that the example of a piece of `tokens` tokens takes of it.
  virtual BySide<int64_t> capacity() const = 0;
  virtual TokenCounts room(int64_t tokens) const = 0;
  /// False: each example has a row.
  virtual bool shares_rows() const { return true; }
  /// Throws Error (kConfig) where no example can be made of the pieces.
  virtual void check(const PieceStore& /*pieces*/) const {}
  /// Appends the example of a piece to a row.
  virtual void append(const PieceStore& pieces, int64_t piece, Draws& draws, ObjectiveRow& row) const = 0;
};

/// An objective, and its share of the rows among several that are trained on in turn.
struct WeightedObjective {
  std::unique_ptr<Objective> objective;
  double weight = 1;
};

/// Adds an example of `ids` to SIDE, SIDE_segmentation and SIDE_position, which are features `first` and the two after it.
void append_side(ObjectiveRow& row, size_t first, std::span<const int32_t> ids);

/// The tokens that examples are made of.
struct ObjectiveTokens {
  /// Returns the tokens that part `part` of the objective has in an epoch; part 0 and epoch 0 if they are the same in all.
  std::function<PieceTokens(size_t part, int64_t epoch, const TextProgress& progress)> open;
  Side side = Side::kTargets;
  /// Tokens are drawn anew in each epoch: the key of a part's EpochSource. Empty: they are not.
  std::function<PhiloxKey(size_t part)> key_of_epochs = {};
  int threads = 1;  ///< that tokenise
};

/// The source of an objective. Throws Error as make_text_source() does.
std::unique_ptr<Source> make_objective_source(const ObjectiveOptions& objective,
                                              const ObjectiveTokens& tokens, const TextSettings& settings,
                                              uint64_t seed, const Mark& mark);

/// Examples of one objective.
class ObjectiveSource final : public Source {
 public:
  ObjectiveSource(std::vector<Feature> features, std::shared_ptr<const Objective> objective,
                  PieceStore pieces, PhiloxKey key);

  int64_t examples() const override { return pieces_.rows(); }
  const std::vector<Feature>& features() const override { return features_; }
  /// The rows of epoch 0.
  void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const override;
  void read_training(std::span<const int64_t> examples, std::span<const int64_t> epochs,
                     std::span<const FeatureSlice> slices) const override;
  /// The name of the stored pieces, a hash of all that determines them.
  std::string fingerprint() const override;

 private:
  void read_rows(std::span<const int64_t> rows, std::span<const int64_t> epochs,
                 std::span<const FeatureSlice> slices) const;
  void make_row(int64_t row, int64_t epoch, ObjectiveRow& values) const;

  std::vector<Feature> features_;
  std::shared_ptr<const Objective> objective_;
  PieceStore pieces_;
  PhiloxKey key_;
};

}  // namespace mtf
