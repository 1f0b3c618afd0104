// A source of examples: a fixed number of rows, each with the same named features, read by row index. It
// knows no batches, no order and no epochs: loader.h adds them.
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
  int64_t vocabulary =
      0;  ///< ids are from 0 to vocabulary - 1 (of targets, their absolute values); 0: no ids

  /// Bytes of one example.
  int64_t bytes() const { return shape.size() * static_cast<int64_t>(size_of(dtype)); }
  friend bool operator==(const Feature&, const Feature&) = default;
};

class Source {
 public:
  virtual ~Source() = default;

  /// Number of examples, at least 1.
  virtual int64_t examples() const = 0;

  virtual const std::vector<Feature>& features() const = 0;

  /// Reads the examples `rows`, in this order (an index may occur several times). outputs[f] receives feature
  /// f as [rows, shape of the feature], row-major. Calls from several threads at once are allowed; nothing is
  /// allocated.
  virtual void read(std::span<const int64_t> rows, std::span<std::byte* const> outputs) const = 0;

  /// The example in row `row` of the endless stream of training, a pure function of its arguments. Here epoch
  /// e is the permutation P(seed, e) of all examples (permutation.h), or without a seed their own order.
  virtual int64_t stream_example(int64_t row, std::optional<uint64_t> seed) const;

  /// Bytes of the examples that are held in memory.
  virtual int64_t bytes_in_memory() const { return 0; }

  /// Throws Error (kData) that names the file when a label is not in 0 .. classes - 1. Sources without class
  /// labels accept any number.
  virtual void check_labels(int64_t classes) const;
  /// Throws Error (kData, at `mark`) when an example has not one target for each input. Only texts can be so.
  virtual void check_aligned(const Mark& mark) const;
};

/// Examples held in memory.
class MemorySource final : public Source {
 public:
  /// values[f] holds feature f of all examples, row-major: the same number of examples for each feature.
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

/// Features without examples: enough to build and explain graphs.
class DeclaredSource final : public Source {
 public:
  explicit DeclaredSource(std::vector<Feature> features) : features_(std::move(features)) {}

  /// 1, for want of a number.
  int64_t examples() const override { return 1; }
  const std::vector<Feature>& features() const override { return features_; }
  /// Must not be called.
  void read(std::span<const int64_t> rows, std::span<std::byte* const> outputs) const override;

 private:
  std::vector<Feature> features_;
};

}  // namespace mtf
