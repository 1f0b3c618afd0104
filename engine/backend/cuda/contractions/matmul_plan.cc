#include "engine/backend/cuda/contractions/matmul_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "engine/base/check.h"

namespace mtf::cuda {
namespace {

/// The extents of a matrix as stored: rows of `columns` elements, row by row.
struct StoredMatrix {
  int64_t rows, columns;
};

StoredMatrix stored_a(const MatmulProblem& p) {
  return p.transpose_a ? StoredMatrix{p.k, p.m} : StoredMatrix{p.m, p.k};
}
StoredMatrix stored_b(const MatmulProblem& p) {
  return p.transpose_b ? StoredMatrix{p.n, p.k} : StoredMatrix{p.k, p.n};
}
StoredMatrix stored_c(const MatmulProblem& p) { return {p.m, p.n}; }

/// The largest power of two that divides all three.
int64_t common_power(int64_t x, int64_t y, int64_t z) {
  return int64_t{1} << std::countr_zero(static_cast<uint64_t>(x | y | z));
}

ColumnMajorMatrix matrix(const MatmulProblem& problem, StoredMatrix stored, int64_t row, int64_t batch,
                         bool transpose, DType dtype) {
  const auto bytes = static_cast<int64_t>(size_of(dtype));
  return {stored.columns, stored.rows, row,
          batch,          transpose,   common_power(problem.alignment, row * bytes, batch * bytes)};
}

/// The stride between rows; that of a single row does not matter.
int64_t row_stride(StoredMatrix stored, int64_t row, const char* name) {
  if (stored.rows == 1) return stored.columns;
  MTF_CHECK(row >= stored.columns, "rows of {} have {} elements and are {} apart", name, stored.columns, row);
  return row;
}

}  // namespace

MatmulProblem canonical(MatmulProblem p) {
  MTF_CHECK(std::min({p.m, p.n, p.k, p.batch}) > 0, "an empty product: {}", text(p));
  MTF_CHECK(is_floating(p.input), "a product of {}", name_of(p.input));
  MTF_CHECK(p.output == p.input || (p.input == DType::kBFloat16 && p.output == DType::kFloat32),
            "a product of {} as {}", name_of(p.input), name_of(p.output));
  MTF_CHECK(p.input != DType::kFloat64 || (!p.bias && p.epilogue == Epilogue::kNone),
            "an epilogue in float64");
  MTF_CHECK(p.alignment > 0 && std::has_single_bit(static_cast<uint64_t>(p.alignment)), "alignment {}",
            p.alignment);
  p.row_a = row_stride(stored_a(p), p.row_a, "a");
  p.row_b = row_stride(stored_b(p), p.row_b, "b");
  p.row_c = row_stride(stored_c(p), p.row_c, "c");
  if (p.batch == 1) p.batch_a = p.batch_b = p.batch_c = 0;
  p.tf32 = p.tf32 && p.input == DType::kFloat32;
  return p;
}

ColumnMajorProblem column_major(const MatmulProblem& problem) {
  const MatmulProblem p = canonical(problem);
  return {.first = matrix(p, stored_b(p), p.row_b, p.batch_b, p.transpose_b, p.input),
          .second = matrix(p, stored_a(p), p.row_a, p.batch_a, p.transpose_a, p.input),
          .output = matrix(p, stored_c(p), p.row_c, p.batch_c, false, p.output)};
}

std::vector<MatmulPart> parts_of(const MatmulProblem& problem) {
  std::vector<MatmulPart> parts;
  for (int64_t begin = 0; begin < problem.batch; begin += kMostMatrices) {
    parts.push_back({begin, problem});
    parts.back().problem.batch = std::min(kMostMatrices, problem.batch - begin);
  }
  return parts;
}

std::string text(const MatmulProblem& p) {
  return fmt::format("{} x {} x {} {}", p.m, p.n, p.k, name_of(p.input)) +
         (p.batch == 1 ? "" : fmt::format(", {} matrices", p.batch));
}

std::shared_ptr<const Matmul> MatmulCache::find_or_make(const MatmulProblem& problem, const Make& make) {
  const MatmulProblem key = canonical(problem);
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Matmul>& plan = plans_[key];
  if (plan == nullptr) plan = make(key);
  return plan;
}

}  // namespace mtf::cuda
