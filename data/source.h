// The interface of a source of examples: a fixed number of rows with the same named features, read by row
// index. Batches and epochs are made from it by loader.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/core/dtype.h"
#include "engine/core/shape.h"

namespace mtf {

/// One named tensor of every example; `shape` is without the batch dimension.
struct Feature {
  std::string name;
  Shape shape;
  DType dtype = DType::kFloat32;
  /// The values are ids from 0 to vocabulary - 1; a target may be a negated id. 0: the values are no ids.
  int64_t vocabulary = 0;

  /// The number of bytes of one example's value.
  int64_t bytes() const { return shape.size() * static_cast<int64_t>(size_of(dtype)); }
  friend bool operator==(const Feature&, const Feature&) = default;
};

class Source {
 public:
  virtual ~Source() = default;

  /// The number of examples, at least 1.
  virtual int64_t examples() const = 0;

  virtual const std::vector<Feature>& features() const = 0;

  /// Reads the examples `rows`, in this order; an index may occur several times. outputs[f] receives feature
  /// f as [rows, shape of the feature], row-major. It is safe to call from several threads and allocates
  /// nothing.
  virtual void read(std::span<const int64_t> rows, std::span<std::byte* const> outputs) const = 0;

  /// Returns the example in row `row` of the endless stream of training, a pure function of its arguments. By
  /// default epoch e is the permutation P(seed, e) of all examples (permutation.h), or without a seed the
  /// order of the source.
  virtual int64_t stream_example(int64_t row, std::optional<uint64_t> seed) const;

  /// The bytes of memory that hold examples.
  virtual int64_t bytes_in_memory() const { return 0; }

  /// Throws Error (kData), which names the file, when a label is not in 0 .. classes - 1. A source without
  /// class labels accepts any `classes`.
  virtual void check_labels(int64_t classes) const;
  /// Throws Error (kData, at `mark`) when an example does not have one target for each input. Only sources of
  /// text check this.
  virtual void check_aligned(const Mark& mark) const;
};

/// A source whose examples are held in memory.
class MemorySource final : public Source {
 public:
  /// values[f] holds feature f of all examples, row-major; all features have the same number of examples.
  MemorySource(std::vector<Feature> features, std::vector<std::vector<std::byte>> values);

  int64_t examples() const override { return examples_; }
  const std::vector<Feature>& features() const override { return features_; }
  void read(std::span<const int64_t> rows, std::span<std::byte* const> outputs) const override;
  int64_t bytes_in_memory() const override;

 private:
  std::vector<Feature> features_;
  std::vector<std::vector<std::byte>> values_;
  int64_t examples_ = 0;
};

/// Features without examples, which suffice to build and explain graphs.
class DeclaredSource final : public Source {
 public:
  explicit DeclaredSource(std::vector<Feature> features) : features_(std::move(features)) {}

  /// Always 1; the true number is not known.
  int64_t examples() const override { return 1; }
  const std::vector<Feature>& features() const override { return features_; }
  /// Must not be called.
  void read(std::span<const int64_t> rows, std::span<std::byte* const> outputs) const override;

 private:
  std::vector<Feature> features_;
};

}  // namespace mtf
