// Divides the examples of a source into training examples and held-out parts, by a hash of each example. An example keeps
// its part when others are added, removed or reordered.
//
//   const SplitRule rule({{"dev", 0.1}});
//   const std::optional<size_t> part = rule.part_of(source.example_hash(7));   // nothing: a training example
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/source.h"
#include "engine/config/types.h"

namespace mtf {

/// Shares by name, as `data.split` has them; their sum is below 1, and the rest is for training.
class SplitRule {
 public:
  SplitRule() = default;
  explicit SplitRule(const config::Named<double>& shares);

  /// Returns the held-out part that an example of this hash belongs to; nothing for training. It depends on the hash and
  /// on the shares up to that part alone.
  std::optional<size_t> part_of(uint64_t hash) const;
  const std::vector<std::string>& names() const { return names_; }
  bool empty() const { return names_.empty(); }

 private:
  std::vector<std::string> names_;
  std::vector<double> ends_;  ///< sums of the shares
};

/// Some examples of a source, in the order of the source.
class SourceSubset final : public Source {
 public:
  /// `examples` are indices into `source`, at least one.
  SourceSubset(std::shared_ptr<const Source> source, std::vector<int64_t> examples);

  int64_t examples() const override { return static_cast<int64_t>(examples_.size()); }
  const std::vector<Feature>& features() const override { return source_->features(); }
  bool has_bytes(size_t f) const override { return source_->has_bytes(f); }
  void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const override;
  std::vector<std::string> class_names() const override { return source_->class_names(); }
  uint64_t example_hash(int64_t example) const override { return source_->example_hash(examples_[example]); }
  /// Of the whole source, and which examples of it these are.
  std::string fingerprint() const override;
  std::string preparation() const override { return source_->preparation(); }
  /// The memory of the whole source: subsets share it, so only the one that counts it says so.
  int64_t bytes_in_memory() const override { return counts_memory_ ? source_->bytes_in_memory() : 0; }
  void check_labels(const LabelRange& classes) const override { source_->check_labels(classes); }
  void check_aligned(const Mark& mark) const override { source_->check_aligned(mark); }
  /// Lets bytes_in_memory() return 0.
  void leave_memory_to_others() { counts_memory_ = false; }

 private:
  std::shared_ptr<const Source> source_;
  std::vector<int64_t> examples_;
  bool counts_memory_ = true;
};

/// A source divided by a rule.
struct SplitSource {
  std::unique_ptr<Source> train;
  std::vector<std::unique_ptr<Source>> parts;  ///< in the order of the rule's names
};

/// Throws Error (kData) at `mark` when a part or the training set has no example.
SplitSource split_source(std::unique_ptr<Source> source, const SplitRule& rule, const Mark& mark);

}  // namespace mtf
