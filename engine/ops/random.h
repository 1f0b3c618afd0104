// Random tensors and dropout. Every number is a function of the operation's name, run.seed, the step and the
// element's global index in the whole batch (engine/core/random.h). Therefore it does not depend on the
// layout, the number of threads, microbatches or restarts, and a copy of an operation for recomputation
// repeats it.
//
//   hidden = dropout(hidden, 0.1, hidden.shape() - length);   // one mask for all of `length`
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/core/random.h"
#include "engine/graph/graph.h"
#include "engine/ops/dimension_name.h"

namespace mtf {

/// Identifies the random numbers of an operation.
struct RandomSource {
  std::string name;  ///< scope path + operation name + occurrence
  /// The loop around the operation: example i of an iteration is example i * count + iteration of the batch.
  Microbatching microbatching;
  /// The index of the tensor's first element, where it is a part of a larger tensor.
  int64_t first_element = 0;

  /// Returns a new source of numbers for each entry of `noise`, with the next free name in the current scope.
  static RandomSource make(Graph& graph, const std::string& operation, const Shape& noise);
};

/// A distribution of random numbers.
struct Distribution {
  enum class Kind { kUniform, kNormal, kGumbel };
  Kind kind = Kind::kUniform;
  /// Uniform: on [a, b]; normal: mean a, standard deviation b; Gumbel: location a, scale b.
  double a = 0, b = 1;
};

/// Returns numbers that are uniform on [low, high].
Tensor random_uniform(Graph& graph, const Shape& shape, double low = 0, double high = 1,
                      DType dtype = DType::kFloat32);
Tensor random_normal(Graph& graph, const Shape& shape, double mean = 0, double stddev = 1,
                     DType dtype = DType::kFloat32);
/// Returns location - scale * log(-log u), with u uniform on (0, 1).
Tensor random_gumbel(Graph& graph, const Shape& shape, double location = 0, double scale = 1,
                     DType dtype = DType::kFloat32);

/// Sets each entry to zero with probability `rate` and scales the others by 1 / (1 - rate); integers are not
/// scaled. Entries that differ only in dimensions that `noise_shape` lacks are kept or dropped together. With
/// rate 0 it is the identity, which still takes a name, so that other masks do not change. Throws Error
/// unless 0 <= rate < 1 and noise_shape has only dimensions of x.
Tensor dropout(const Tensor& x, double rate, const Shape& noise_shape);
Tensor dropout(const Tensor& x, double rate);

/// Samples an index (int32) along `dimension` for each combination of the other dimensions, with probability
/// softmax(logits / temperature), by the Gumbel-max trick in float32; with temperature 0, the index of the
/// largest logit. Throws Error if the temperature is negative.
Tensor sample_with_temperature(const Tensor& logits, DimensionName dimension, double temperature = 1);

class Random final : public OperationBase<Random> {
 public:
  Random(const Shape& shape, DType dtype, Distribution distribution, RandomSource source);
  std::string_view name() const override;
  std::string attributes() const override;

  Distribution distribution;
  RandomSource source;
};

class Dropout final : public OperationBase<Dropout> {
 public:
  Dropout(const Tensor& x, double rate, const Shape& noise_shape, RandomSource source);
  std::string_view name() const override { return "dropout"; }
  std::optional<ElementwiseStep> elementwise_step() const override;
  std::string attributes() const override;
  /// Applies the same mask and scale to dy.
  Tensors gradient(const Tensors& dy) const override;
  std::optional<int> in_place(int) const override { return 0; }

  double rate;
  Shape noise_shape;
  RandomSource source;
};

}  // namespace mtf
