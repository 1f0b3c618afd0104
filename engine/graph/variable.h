// Variables: state that outlives a step, such as weights, optimizer slots and statistics. A variable belongs
// to the graph; its values belong to the executor. Initial values depend on the seed, the name and the global
// element index, never on the layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/core/dtype.h"
#include "engine/core/shape.h"

namespace mtf {

/// A distribution of initial values. Normal and truncated normal (truncated at two standard deviations,
/// without a correction of the variance) have mean 0.
struct Initializer {
  enum class Kind { kConstant, kUniform, kNormal, kTruncatedNormal };
  Kind kind = Kind::kConstant;
  double value = 0;  ///< constant: the value; uniform: half the width; normal: standard deviation

  static Initializer constant(double value) { return {Kind::kConstant, value}; }
  static Initializer zeros() { return constant(0); }
  static Initializer ones() { return constant(1); }
  /// Uniform on [-limit, limit].
  static Initializer uniform(double limit) { return {Kind::kUniform, limit}; }
  static Initializer normal(double stddev) { return {Kind::kNormal, stddev}; }
  static Initializer truncated_normal(double stddev) { return {Kind::kTruncatedNormal, stddev}; }

  friend bool operator==(const Initializer&, const Initializer&) = default;
};

struct Variable {
  /// kConstant: set before the first step, never assigned and never saved (the weights of a teacher). kCopy: made of a
  /// weight for inference, laid out like it and never saved (engine/ops/weight_copies.h). kSession: has the layout of an
  /// activation and is never saved (caches of decoding).
  enum class Kind { kWeight, kSlot, kStatistic, kConstant, kCopy, kSession };
  static constexpr size_t kKinds = static_cast<size_t>(Kind::kSession) + 1;

  std::string name;  ///< full path, unique in the graph
  Shape shape;
  DType dtype = DType::kFloat32;  ///< dtype of the resident slice that is updated
  Initializer initializer;
  Kind kind = Kind::kWeight;
  /// Adam's steps are multiplied by this factor, if its options say so. The variable is `step_scale` times
  /// the one of the parametrisation for which Adam's learning rates are usually given (embeddings of variance
  /// 1 / d_model, queries scaled after their projection).
  double step_scale = 1;
  int index = 0;  ///< position in Graph::variables()
  /// The values lie in page-locked memory of the host, where kernels of a GPU read and write them. It means nothing on
  /// the processor.
  bool on_host = false;

  bool trainable() const { return kind == Kind::kWeight; }
  /// True if checkpoints contain the variable.
  bool is_saved() const { return kind != Kind::kConstant && kind != Kind::kCopy && kind != Kind::kSession; }
};

}  // namespace mtf
