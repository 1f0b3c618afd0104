// Products of matrices in the terms of BLAS, which stores matrices column by column: c = a b row by row is c'
// = b' a' column by column. And the plans that were made.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/backend/cuda/device/matmul.h"

namespace mtf::cuda {

/// As stored, column by column.
struct ColumnMajorMatrix {
  int64_t rows = 1, columns = 1;
  int64_t leading = 1;  ///< elements from column to column
  int64_t batch_stride = 0;
  bool transpose = false;  ///< before it is multiplied
  int64_t alignment = 1;   ///< bytes at multiples of which its columns begin, in every matrix of the batch

  friend bool operator==(const ColumnMajorMatrix&, const ColumnMajorMatrix&) = default;
};

/// output = first second.
struct ColumnMajorProblem {
  ColumnMajorMatrix first, second, output;
};

ColumnMajorProblem column_major(const MatmulProblem& problem);

/// The same product, with one value of each stride that does not matter. Aborts where a problem is none.
MatmulProblem canonical(MatmulProblem problem);

/// Matrices of a batch that one call multiplies: CUDA's grids have at most 65535 blocks along the batch.
inline constexpr int64_t kMostMatrices = 1 << 15;

/// Matrices [begin, begin + problem.batch) of a batch.
struct MatmulPart {
  int64_t begin = 0;
  MatmulProblem problem;
};
std::vector<MatmulPart> parts_of(const MatmulProblem& problem);

/// "4096 x 512 x 2048 float32, 8 matrices".
std::string text(const MatmulProblem& problem);

/// One plan for each problem. From any thread.
class MatmulCache {
 public:
  using Make = std::function<std::shared_ptr<const Matmul>(const MatmulProblem&)>;
  /// make(canonical(problem)), once.
  std::shared_ptr<const Matmul> find_or_make(const MatmulProblem& problem, const Make& make);

 private:
  std::mutex mutex_;
  std::map<MatmulProblem, std::shared_ptr<const Matmul>> plans_;
};

}  // namespace mtf::cuda
