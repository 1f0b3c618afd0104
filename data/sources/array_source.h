// A source whose features are arrays of numbers in memory or in mapped files, in any element type and order of
// dimensions: IDX, CIFAR and NPY files. Numbers are converted when they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/elements.h"
#include "data/source.h"

namespace mtf {

/// The values of one feature for some examples.
struct ExampleArray {
  std::string path;                   ///< its file, for messages
  std::shared_ptr<const void> owner;  ///< keeps `data` valid
  const std::byte* data = nullptr;    ///< the first element of the first example
  int64_t examples = 0;
  int64_t stride = 0;            ///< bytes from one example to the next
  std::vector<int64_t> strides;  ///< bytes from one index to the next, for each dimension of the feature
  StoredElements elements;
  int64_t bytes_in_memory = 0;  ///< 0: a mapped file
};

/// Returns the strides in bytes of a row-major array of such sizes.
std::vector<int64_t> row_major_strides(std::span<const int64_t> sizes, int64_t element_bytes);

/// A feature whose values come from one array, or from several one after the other.
struct ArrayFeature {
  Feature feature;
  std::vector<ExampleArray> arrays;
};

inline constexpr std::string_view kImageFeature = "image";

class ArraySource final : public Source {
 public:
  /// All features must have the same number of examples, at least 1. Throws Error (kData) when int32 does not have a whole
  /// number of them: wider ones of an array that is not too large are read once for this. `place_of_names`: the
  /// configuration names the classes there, all of the model.
  explicit ArraySource(std::vector<ArrayFeature> features, std::vector<std::string> class_names = {},
                       std::optional<Mark> place_of_names = std::nullopt);

  int64_t examples() const override { return examples_; }
  const std::vector<Feature>& features() const override { return features_; }
  bool has_bytes(size_t f) const override;
  void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const override;
  int64_t bytes_in_memory() const override;
  /// Checks the feature of the labels. Throws Error (kConfig) when the configuration names another number of classes.
  void check_labels(const LabelRange& classes) const override;
  std::vector<std::string> class_names() const override { return class_names_; }
  std::string preparation() const override;

 private:
  struct Part {
    int64_t begin;  ///< the first example
    ExampleArray array;
  };
  const Part& part_of(size_t feature, int64_t example) const;
  void check_numbers() const;
  /// Reads into `slice.output` and returns the end of what it wrote.
  std::byte* read_example(size_t feature, int64_t example, const FeatureSlice& slice) const;

  std::vector<Feature> features_;
  std::vector<std::vector<Part>> parts_;  ///< [features][parts of the feature]
  std::vector<std::string> class_names_;
  std::optional<Mark> place_of_names_;
  int64_t examples_ = 0;
};

}  // namespace mtf
