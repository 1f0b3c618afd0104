#include "engine/backend/cuda/contractions/matmul_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/base/error.h"

namespace mtf::cuda {
namespace {

using ::testing::ElementsAre;

/// Whole numbers, so that sums are exact in any order.
std::vector<float> numbers(int64_t count, int seed) {
  std::vector<float> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(static_cast<float>((i * 7 + seed) % 11 - 5));
  return result;
}

/// The result of BLAS for `problem`, computed element by element.
void multiply(const ColumnMajorProblem& problem, int64_t batch, const float* first, const float* second,
              float* output) {
  const auto at = [](const ColumnMajorMatrix& matrix, int64_t i, int64_t j) {
    return matrix.transpose ? j + i * matrix.leading : i + j * matrix.leading;
  };
  const int64_t summed = problem.first.transpose ? problem.first.rows : problem.first.columns;
  for (int64_t matrix = 0; matrix < batch; ++matrix) {
    for (int64_t j = 0; j < problem.output.columns; ++j) {
      for (int64_t i = 0; i < problem.output.rows; ++i) {
        float sum = 0;
        for (int64_t l = 0; l < summed; ++l) {
          sum += first[matrix * problem.first.batch_stride + at(problem.first, i, l)] *
                 second[matrix * problem.second.batch_stride + at(problem.second, l, j)];
        }
        output[matrix * problem.output.batch_stride + at(problem.output, i, j)] = sum;
      }
    }
  }
}

/// The result by the problem's definition.
void multiply(const MatmulProblem& p, const float* a, const float* b, float* c) {
  for (int64_t matrix = 0; matrix < p.batch; ++matrix) {
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        float sum = 0;
        for (int64_t l = 0; l < p.k; ++l) {
          sum += a[matrix * p.batch_a + (p.transpose_a ? l * p.row_a + i : i * p.row_a + l)] *
                 b[matrix * p.batch_b + (p.transpose_b ? j * p.row_b + l : l * p.row_b + j)];
        }
        c[matrix * p.batch_c + i * p.row_c + j] = sum;
      }
    }
  }
}

MatmulProblem dense(int64_t m, int64_t n, int64_t k) {
  return {.m = m, .n = n, .k = k, .row_a = k, .row_b = n, .row_c = n};
}

TEST(MatmulPlan, ColumnsOfTheTransposedMatricesGiveTheSameProduct) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const int64_t m : {1, 3}) {
        for (const int64_t n : {1, 5}) {
          for (const int64_t k : {1, 4}) {
            MatmulProblem p{.m = m, .n = n, .k = k, .batch = 2};
            p.transpose_a = transpose_a;
            p.transpose_b = transpose_b;
            p.row_a = p.row_b = p.row_c = 7;
            p.batch_a = 40;
            p.batch_b = 0;
            p.batch_c = 50;
            const std::vector<float> a = numbers(100, 1), b = numbers(100, 2);
            std::vector<float> expected(100), actual(100);
            multiply(p, a.data(), b.data(), expected.data());
            multiply(column_major(p), p.batch, b.data(), a.data(), actual.data());
            EXPECT_EQ(actual, expected) << text(p) << transpose_a << transpose_b;
          }
        }
      }
    }
  }
}

TEST(MatmulPlan, LeadingDimensionsAreNoSmallerThanColumns) {
  // a has one row, so its stride is irrelevant.
  MatmulProblem p = dense(1, 6, 8);
  p.row_a = 0;
  const ColumnMajorProblem matrices = column_major(p);
  EXPECT_EQ(matrices.second,
            (ColumnMajorMatrix{.rows = 8, .columns = 1, .leading = 8, .transpose = false, .alignment = 16}));
  EXPECT_EQ(matrices.first.leading, 6);
}

TEST(MatmulPlan, AlignmentIsThatOfEveryColumnInEveryMatrix) {
  MatmulProblem p = dense(4, 6, 8);
  p.input = p.output = DType::kBFloat16;
  EXPECT_EQ(column_major(p).second.alignment, 16);  // 8 elements of 2 bytes
  EXPECT_EQ(column_major(p).first.alignment, 4);    // 6 elements of 2 bytes
  p.output = DType::kFloat32;
  EXPECT_EQ(column_major(p).output.alignment, 8);  // 6 elements of 4 bytes
  p.batch = 2;
  p.batch_a = 33;
  EXPECT_EQ(column_major(p).second.alignment, 2);
  p.batch_a = 32;
  p.alignment_a = 4;
  EXPECT_EQ(column_major(p).second.alignment, 4);
  EXPECT_EQ(column_major(p).output.alignment, 8);
}

TEST(MatmulPlan, ASingleRowIsAligned) {
  MatmulProblem p = dense(1, 33, 17);
  p.input = p.output = DType::kBFloat16;
  EXPECT_EQ(column_major(p).second.alignment, 16);
  EXPECT_EQ(column_major(p).output.alignment, 16);
  EXPECT_EQ(column_major(p).first.alignment, 2);
}

TEST(MatmulPlanDeathTest, AlignmentIsAtLeastAnElement) {
  MatmulProblem p = dense(4, 6, 8);
  p.input = DType::kBFloat16;
  p.alignment_c = 2;
  EXPECT_DEATH(column_major(p), "float32 aligned to 2 bytes");
}

TEST(MatmulPlan, FullTextsDiffer) {
  const MatmulProblem p = dense(4, 6, 8);
  std::set<std::string> texts = {full_text(p)};
  const auto changed = [&](auto member, auto value) {
    MatmulProblem other = p;
    other.*member = value;
    EXPECT_TRUE(texts.insert(full_text(other)).second) << full_text(other);
  };
  using P = MatmulProblem;
  for (int64_t P::*size : {&P::m, &P::n, &P::k, &P::batch, &P::row_a, &P::row_b, &P::row_c, &P::batch_a,
                           &P::batch_b, &P::batch_c, &P::alignment_a, &P::alignment_b, &P::alignment_c})
    changed(size, 1024);
  for (bool P::*flag : {&P::transpose_a, &P::transpose_b, &P::accumulate, &P::bias}) changed(flag, true);
  changed(&P::input, DType::kBFloat16);
  changed(&P::output, DType::kBFloat16);
  changed(&P::epilogue, Epilogue::kGelu);
  changed(&P::precision, MatmulPrecision::kTf32);
  changed(&P::precision, MatmulPrecision::kBFloat16);
}

TEST(MatmulPlan, NamesTheEnvironmentThatTheLibraryObeys) {
  EXPECT_EQ(library_environment(), "");
  setenv("NVIDIA_TF32_OVERRIDE", "1", 1);
  EXPECT_EQ(library_environment(), " NVIDIA_TF32_OVERRIDE=1");
  unsetenv("NVIDIA_TF32_OVERRIDE");
}

TEST(MatmulPlan, LargeBatchesAreCut) {
  MatmulProblem p = dense(2, 2, 2);
  p.batch = 2 * kMostMatrices + 3;
  std::vector<int64_t> begins, sizes;
  for (const MatmulPart& part : parts_of(p)) {
    begins.push_back(part.begin);
    sizes.push_back(part.problem.batch);
  }
  EXPECT_THAT(begins, ElementsAre(0, kMostMatrices, 2 * kMostMatrices));
  EXPECT_THAT(sizes, ElementsAre(kMostMatrices, kMostMatrices, 3));
}

class Nothing final : public Matmul {
 public:
  int64_t workspace_bytes() const override { return 0; }
  void run(const void*, const void*, void*, void*, const void*, const void*) const override {}
};

TEST(MatmulPlan, OnePlanForEachProduct) {
  const auto device = open_device(0);
  MatmulCache cache(*device);
  int made = 0;
  const auto find = [&](const MatmulProblem& problem) {
    return cache.find_or_make(problem, [&](const MatmulProblem&, int most) {
      ++made;
      EXPECT_EQ(most, 1);
      return std::vector<std::shared_ptr<const Matmul>>{std::make_shared<const Nothing>()};
    });
  };
  MatmulProblem p = dense(4, 6, 8);
  const auto plan = find(p);
  EXPECT_EQ(find(p), plan);
  p.batch_a = 99;  // irrelevant for a single matrix
  EXPECT_EQ(find(p), plan);
  p.accumulate = true;
  EXPECT_NE(find(p), plan);
  EXPECT_EQ(made, 2);
}

/// Remembers choices without measuring.
class Choices final : public TuningRecord {
 public:
  explicit Choices(int choice) : choice_(choice) {}
  int choose(const std::string& problem, const std::function<int()>&) override {
    problems.push_back(problem);
    return choice_;
  }
  std::vector<std::string> problems;

 private:
  int choice_;
};

TEST(MatmulPlan, TunedPlansAreThoseOfTheRecord) {
  const auto device = open_device(0);
  MatmulCache cache(*device);
  std::vector<std::shared_ptr<const Matmul>> plans;
  for (int i = 0; i < 3; ++i) plans.push_back(std::make_shared<const Nothing>());
  const auto find = [&](const MatmulProblem& problem) {
    return cache.find_or_make(problem, [&](const MatmulProblem&, int most) {
      return std::vector(plans.begin(), plans.begin() + std::min(most, 3));
    });
  };
  const MatmulProblem p = dense(4, 6, 8);
  EXPECT_EQ(find(p), plans[0]);
  Choices choices(2);
  cache.tune(choices);
  EXPECT_EQ(find(p), plans[2]);
  EXPECT_EQ(find(p), plans[2]);
  EXPECT_THAT(choices.problems, ElementsAre(full_text(canonical(p))));
  Choices outdated(3);
  cache.tune(outdated);
  EXPECT_THROW(find(p), Error);
}

TEST(MatmulPlanDeathTest, RowsDoNotOverlap) {
  MatmulProblem p = dense(4, 6, 8);
  p.row_b = 5;
  EXPECT_DEATH(column_major(p), "rows of b have 6 elements and are 5 apart");
}

}  // namespace
}  // namespace mtf::cuda
