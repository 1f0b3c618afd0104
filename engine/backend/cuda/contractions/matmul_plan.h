// Expresses matrix products in the terms of BLAS, which stores matrices column by column: the row-major
// product c = a b is the column-major product c' = b' a'. Also a cache of plans.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/device/matmul.h"

namespace mtf::cuda {

/// A matrix as stored, column by column.
struct ColumnMajorMatrix {
  int64_t rows = 1, columns = 1;
  int64_t leading = 1;  ///< elements between the begins of adjacent columns
  int64_t batch_stride = 0;
  bool transpose = false;  ///< transposed before it is multiplied
  /// In every matrix of the batch, columns begin at multiples of this number of bytes.
  int64_t alignment = 1;

  friend bool operator==(const ColumnMajorMatrix&, const ColumnMajorMatrix&) = default;
};

/// output = first second.
struct ColumnMajorProblem {
  ColumnMajorMatrix first, second, output;
};

ColumnMajorProblem column_major(const MatmulProblem& problem);

/// The same product, with strides that do not matter set to one fixed value. Aborts if the problem is
/// invalid.
MatmulProblem canonical(MatmulProblem problem);

/// The most matrices of a batch that one call multiplies: CUDA's grids have at most 65535 blocks along the
/// batch.
inline constexpr int64_t kMostMatrices = 1 << 15;

/// Matrices [begin, begin + problem.batch) of a batch.
struct MatmulPart {
  int64_t begin = 0;
  MatmulProblem problem;
};
std::vector<MatmulPart> parts_of(const MatmulProblem& problem);

/// A description such as "4096 x 512 x 2048 float32, 8 matrices".
std::string text(const MatmulProblem& problem);
/// A text that differs for any two canonical problems.
std::string full_text(const MatmulProblem& problem);

/// What the bits of the library's products depend on besides its version: the variables of the environment
/// that it obeys, such as " NVIDIA_TF32_OVERRIDE=1"; empty if none is set.
std::string library_environment();

/// Plans of one device: one for each problem. May be used from any thread.
class MatmulCache {
 public:
  /// A plan for each of the library's algorithms for a canonical problem, at most `most`; first those that it
  /// expects to be fast.
  using Candidates =
      std::function<std::vector<std::shared_ptr<const Matmul>>(const MatmulProblem&, int most)>;

  explicit MatmulCache(Device& device) : device_(device) {}
  /// MatmulLibrary::tune().
  void tune(TuningRecord& record);
  /// MatmulLibrary::prepare(). `candidates` is called once for each problem.
  std::shared_ptr<const Matmul> find_or_make(const MatmulProblem& problem, const Candidates& candidates);

 private:
  std::shared_ptr<const Matmul> make(const MatmulProblem& problem, const Candidates& candidates) const;

  Device& device_;
  std::mutex mutex_;  ///< guards the members below
  TuningRecord* record_ = nullptr;
  std::map<MatmulProblem, std::shared_ptr<const Matmul>> plans_;
};

}  // namespace mtf::cuda
