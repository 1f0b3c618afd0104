// A source whose images are augmented when they are read.
//
//   const auto train = augmented(source, {.augmentations = options, .seed = 1, .purpose = AugmentFor::kTraining});
//
// What an augmentation draws is a function of the seed, its place in the list, the example and the epoch alone, so every
// layout, number of processes or threads and every restart gives the same images.
//
// An augmentation that mixes (mixup, cutmix) joins each row of the global batch with the next one, the last with the first.
// Both went through the augmentations before it. Of several such augmentations, which stand side by side in the list, the
// first that applies to a row is the only one. They add the features NAME_other (the next row's label) and NAME_weight (the
// weight of the own label) beside the labels.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/augment/augmentation.h"
#include "data/augment/feature_image.h"
#include "data/source.h"
#include "data/worker_pool.h"

namespace mtf {

enum class AugmentFor {
  kTraining,   ///< all augmentations
  kEvaluation  ///< those with AugmentationOptions::in_evaluation()
};

struct AugmentSettings {
  Augmentations augmentations;
  std::string image = "image";    ///< the feature that is augmented
  std::string labels = "labels";  ///< the feature whose values are mixed
  uint64_t seed = 1;
  AugmentFor purpose = AugmentFor::kTraining;
  int threads = 1;
  Mark mark = {};  ///< where the list is in the configuration
};

/// What is added to the name of the labels.
inline constexpr std::string_view kOtherSuffix = "_other", kWeightSuffix = "_weight";

/// The features of such a source, without any example. Throws Error (kConfig) where an augmentation does not fit.
std::vector<Feature> augmented_features(const std::vector<Feature>& features,
                                        const AugmentSettings& settings);

/// The source with its images augmented; the source itself where nothing is to be done. Throws as augmented_features does.
std::shared_ptr<const Source> augmented(std::shared_ptr<const Source> source,
                                        const AugmentSettings& settings);

/// Takes back what `normalize` and the like have made of the colours, for people who look at the image.
void undo_normalization(FloatImage& image, const AugmentSettings& settings);

class AugmentedSource final : public Source {
 public:
  AugmentedSource(std::shared_ptr<const Source> source, const AugmentSettings& settings);

  int64_t examples() const override { return source_->examples(); }
  const std::vector<Feature>& features() const override { return features_; }
  /// The examples as evaluation sees them; only of a source for evaluation.
  void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const override;
  void read_training(std::span<const int64_t> examples, std::span<const int64_t> epochs,
                     std::span<const FeatureSlice> slices) const override;
  int64_t bytes_of_reading(int64_t rows) const override;
  int64_t stream_example(int64_t row, std::optional<uint64_t> seed) const override {
    return source_->stream_example(row, seed);
  }
  int64_t stream_epoch(int64_t row) const override { return source_->stream_epoch(row); }
  int64_t bytes_in_memory() const override { return source_->bytes_in_memory(); }
  std::vector<std::string> class_names() const override { return source_->class_names(); }
  uint64_t example_hash(int64_t example) const override { return source_->example_hash(example); }
  std::string fingerprint() const override { return source_->fingerprint(); }
  std::string example_name(int64_t example) const override { return source_->example_name(example); }
  std::string preparation() const override { return source_->preparation(); }
  void check_labels(const LabelRange& classes) const override { source_->check_labels(classes); }
  void check_aligned(const Mark& mark) const override { source_->check_aligned(mark); }

 private:
  /// An augmentation, and the key of its random numbers.
  struct Step {
    config::Listed<AugmentationOptions> augmentation;
    PhiloxKey key;
  };
  /// How a batch is worked on: some rows at a time, which are read together and then shared out among tasks.
  struct Portions {
    int64_t rows;   ///< read together
    int64_t tasks;  ///< each portion is shared out among so many
  };
  /// Some rows that are read together, and the memory for it.
  struct Portion;

  Portions portions(int64_t rows) const;
  bool mixes() const { return !mixing_.empty(); }
  /// `examples` and `epochs` are those of `rows` rows, and where rows are mixed of the one after them.
  void read_rows(std::span<const int64_t> examples, std::span<const int64_t> epochs, int64_t rows,
                 std::span<const FeatureSlice> slices) const;
  void run_task(const Portion& portion, int64_t begin, int64_t end) const;
  void apply(const std::vector<Step>& steps, FloatImage& image, int64_t example, int64_t epoch) const;

  std::shared_ptr<const Source> source_;
  std::vector<Feature> features_;
  size_t image_ = 0;        ///< the feature that is augmented
  size_t labels_ = 0;       ///< the feature of labels, where mixes()
  FeatureImage from_, to_;  ///< the source's images, and what is made of them
  int64_t capacity_ = 0;
  std::vector<Step> steps_;  ///< before the first that mixes
  std::vector<Step> mixing_;
  std::vector<Step> steps_of_mixed_;  ///< after it
  std::unique_ptr<WorkerPool> pool_;
};

}  // namespace mtf
