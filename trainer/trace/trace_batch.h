// Reads the batch of run.mode=trace from a safetensors file with tensors input/FEATURE [batch, ...].
//
//   const SafetensorsFile file(config.trace.input.text);
//   const TraceBatch batch(session, file);
//   batch.feed(executor);
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/runtime/executor.h"
#include "engine/safetensors/safetensors.h"
#include "trainer/session/session.h"

namespace mtf {

/// Returns `stored` as a tensor of this shape and dtype. Throws Error (kData) when it has another shape or
/// dtype.
HostTensor to_host(const SafetensorsFile& file, const StoredTensor& stored, const Shape& shape, DType dtype);

/// A batch with the features that the model needs, and those that it can use if the file has them.
class TraceBatch {
 public:
  /// Throws Error (kData) for missing tensors, tensors that are no feature of data.train, wrong shapes, and
  /// ids and positions that the model does not have.
  TraceBatch(const Session& session, const SafetensorsFile& file);

  int64_t size() const { return size_; }
  const std::vector<Feature>& features() const { return features_; }
  /// Throws Error (kData) when a label is not a class.
  void check_labels(const LabelRange& expected) const;
  void feed(Executor& executor) const;

 private:
  void add(const Feature& feature, const StoredTensor& stored);
  /// Throws Error (kData) for the first value of an int32 feature that is not in `least` .. `most`.
  void check_range(const std::string& feature, int64_t least, int64_t most, const std::string& what) const;
  /// Throws Error (kData) unless `is_right` of all values; `rule` says what they are.
  void check_values(const std::string& feature, const std::function<bool(int64_t value)>& is_right,
                    const std::string& rule) const;

  const SafetensorsFile& file_;
  int64_t size_ = 0;
  std::vector<Feature> features_;
  /// A feature, the name of its tensor in the file, and the tensor.
  struct Input {
    std::string feature, name;
    HostTensor tensor;
  };
  std::vector<Input> inputs_;
};

}  // namespace mtf
