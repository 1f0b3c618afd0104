#include "engine/backend/cuda/contractions/matmul_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include "engine/backend/cuda/contractions/matmul_measurement.h"
#include "engine/base/check.h"
#include "engine/base/error.h"

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

int64_t element_bytes(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }

/// The largest power of two that divides all three.
int64_t common_power(int64_t x, int64_t y, int64_t z) {
  return int64_t{1} << std::countr_zero(static_cast<uint64_t>(x | y | z));
}

ColumnMajorMatrix matrix(int64_t alignment, StoredMatrix stored, int64_t row, int64_t batch, bool transpose,
                         DType dtype) {
  const int64_t bytes = element_bytes(dtype);
  return {stored.columns, stored.rows, row,
          batch,          transpose,   common_power(alignment, row * bytes, batch * bytes)};
}

/// The stride between rows. That of a single row does not matter: it becomes one that keeps rows aligned.
int64_t row_stride(StoredMatrix stored, int64_t row, const char* name) {
  constexpr int64_t kUnit = 8;  // elements
  if (stored.rows == 1) return (stored.columns + kUnit - 1) / kUnit * kUnit;
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
  for (const auto& [alignment, dtype] :
       {std::pair(p.alignment_a, p.input), {p.alignment_b, p.input}, {p.alignment_c, p.output}}) {
    MTF_CHECK(std::has_single_bit(static_cast<uint64_t>(alignment)) && alignment >= element_bytes(dtype),
              "{} aligned to {} bytes", name_of(dtype), alignment);
  }
  p.row_a = row_stride(stored_a(p), p.row_a, "a");
  p.row_b = row_stride(stored_b(p), p.row_b, "b");
  p.row_c = row_stride(stored_c(p), p.row_c, "c");
  if (p.batch == 1) p.batch_a = p.batch_b = p.batch_c = 0;
  if (p.input != DType::kFloat32) p.precision = MatmulPrecision::kFull;
  return p;
}

ColumnMajorProblem column_major(const MatmulProblem& problem) {
  const MatmulProblem p = canonical(problem);
  return {.first = matrix(p.alignment_b, stored_b(p), p.row_b, p.batch_b, p.transpose_b, p.input),
          .second = matrix(p.alignment_a, stored_a(p), p.row_a, p.batch_a, p.transpose_a, p.input),
          .output = matrix(p.alignment_c, stored_c(p), p.row_c, p.batch_c, false, p.output)};
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

std::string full_text(const MatmulProblem& p) {
  return fmt::format(
      "{} {} x {} x {}, {} matrices, transposed {:d} {:d}, rows {} {} {}, apart {} {} {}, aligned {} {} {}, "
      "to "
      "{}{}{}{}{}{}",
      name_of(p.input), p.m, p.n, p.k, p.batch, p.transpose_a, p.transpose_b, p.row_a, p.row_b, p.row_c,
      p.batch_a, p.batch_b, p.batch_c, p.alignment_a, p.alignment_b, p.alignment_c, name_of(p.output),
      p.accumulate ? ", accumulate" : "", p.precision == MatmulPrecision::kFull ? "" : ", ",
      short_name(p.precision), p.bias ? ", bias" : "",
      p.epilogue == Epilogue::kGelu   ? ", gelu"
      : p.epilogue == Epilogue::kRelu ? ", relu"
                                      : "");
}

std::string library_environment() {
  std::string set;
  for (const char* name : {"NVIDIA_TF32_OVERRIDE", "CUBLAS_EMULATE_SINGLE_PRECISION",
                           "CUBLAS_EMULATE_DOUBLE_PRECISION", "CUBLAS_EMULATION_STRATEGY"}) {
    if (const char* value = std::getenv(name)) set += fmt::format(" {}={}", name, value);
  }
  return set;
}

void MatmulCache::tune(TuningRecord& record) {
  const std::lock_guard lock(mutex_);
  record_ = &record;
  plans_.clear();
}

std::shared_ptr<const Matmul> MatmulCache::find_or_make(const MatmulProblem& problem,
                                                        const Candidates& candidates) {
  const MatmulProblem key = canonical(problem);
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = plans_.try_emplace(key);
  if (is_new) found->second = make(key, candidates);
  return found->second;
}

std::shared_ptr<const Matmul> MatmulCache::make(const MatmulProblem& problem,
                                                const Candidates& candidates) const {
  constexpr int kMeasured = 8;
  const auto plans = candidates(problem, record_ == nullptr ? 1 : kMeasured);
  if (plans.empty()) return nullptr;
  if (record_ == nullptr) return plans.front();
  const int choice = record_->choose(full_text(problem), [&] { return fastest(device_, problem, plans); });
  if (choice < 0 || choice >= std::ssize(plans)) {
    throw Error(ErrorKind::kSystem,
                fmt::format("algorithm {} was recorded for a product of {}, but the library has {}", choice,
                            text(problem), plans.size()),
                "remove the record of measured algorithms from run.model_dir");
  }
  return plans[static_cast<size_t>(choice)];
}

}  // namespace mtf::cuda
