// Several sources as one: all examples of an epoch, or mixed by weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "data/source.h"

namespace mtf {

/// A source takes its turns in the stream by a fixed schedule: of the first r rows of the stream its share is
/// r * weight / all weights, up to no more rows than there are sources. Nothing random is in it, and a late
/// row takes no more time to be found than an early one.
class MixtureSchedule {
 public:
  /// Weights above 0.
  explicit MixtureSchedule(const std::vector<double>& weights);

  struct Turn {
    int64_t source;
    int64_t row;  ///< how many rows of the stream the source had before
  };
  Turn turn(int64_t row) const;
  /// The number of rows that each source has among the first `rows` rows of the stream.
  std::vector<int64_t> rows_of_each(int64_t rows) const;

 private:
  /// The share of source k against those that follow, in units of 2^-53.
  std::vector<uint64_t> shares_;
};

/// Examples of all sources one after the other. Without weights the stream of training has each example once
/// in an epoch. With weights each source goes through epochs of its own, as often as its turn comes; an epoch
/// of the whole is as many rows as there are examples.
class MixedSource final : public Source {
 public:
  /// Sources with the same features, at least one; weights are empty or one for each.
  MixedSource(std::vector<std::unique_ptr<Source>> sources, const std::vector<double>& weights);

  int64_t examples() const override { return first_.back(); }
  const std::vector<Feature>& features() const override { return features_; }
  void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const override;
  /// To each source its rows follow themselves.
  void read_training(std::span<const int64_t> examples, std::span<const int64_t> epochs,
                     std::span<const FeatureSlice> slices) const override;
  int64_t stream_example(int64_t row, std::optional<uint64_t> seed) const override;
  int64_t stream_epoch(int64_t row) const override;
  void begin_stream(std::optional<int64_t> end, const std::stop_token& stop) const override;
  bool begins_made_epoch(int64_t row) const override;
  int64_t bytes_of_making_epochs() const override;
  int64_t bytes_in_memory() const override;
  /// Those of the first source, which the others share.
  std::vector<std::string> class_names() const override { return sources_[0]->class_names(); }
  std::string preparation() const override { return sources_[0]->preparation(); }
  uint64_t example_hash(int64_t example) const override;
  std::string fingerprint() const override;
  void check_labels(const LabelRange& classes) const override;
  void check_aligned(const Mark& mark) const override;

 private:
  /// Calls `read(i, source, example, slices)` for each of `rows`: the source that has it, its number there, and where
  /// it goes.
  template <class Read>
  void for_each_row(std::span<const int64_t> rows, std::span<const FeatureSlice> slices,
                    const Read& read) const;

  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<Feature> features_;  ///< those of all sources
  std::vector<int64_t> first_;     ///< example of each source, and their number
  std::optional<MixtureSchedule> schedule_;
};

}  // namespace mtf
