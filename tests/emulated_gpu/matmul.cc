// Matrix products in the terms of cuBLASLt (matmul_plan.h). There are two algorithms, which sum in opposite
// orders.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "engine/backend/cuda/contractions/matmul_plan.h"
#include "engine/backend/cuda/elementwise/formulas.h"
#include "engine/backend/element.h"
#include "engine/base/check.h"
#include "tests/emulated_gpu/emulated_device.h"
#include "tests/emulated_gpu/matmul_limits.h"

namespace mtf::cuda::emulator {
namespace {

/// The size of the workspace; every product fills it with NaN.
constexpr int64_t kWorkspaceBytes = 1024;
/// The number of columns of the output that are computed together.
constexpr int64_t kColumns = 8;

constexpr int kAlgorithms = 2;

/// Truncates x to 10 bits of mantissa, as tensor cores do, or rounds it to bfloat16.
float factor(float x, MatmulPrecision precision) {
  switch (precision) {
    case MatmulPrecision::kTf32:
      return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xffffe000u);
    case MatmulPrecision::kBFloat16:
      return widen(narrow<BFloat16>(x));
    case MatmulPrecision::kFull:
      break;
  }
  return x;
}
double factor(double x, MatmulPrecision) { return x; }

/// to[column * rows + row] = element (row, column) of the matrix as it is multiplied.
template <class Sum, class T>
void widen_matrix(const ColumnMajorMatrix& matrix, const T* from, MatmulPrecision precision, Sum* to) {
  const int64_t rows = matrix.transpose ? matrix.columns : matrix.rows;
  const int64_t columns = matrix.transpose ? matrix.rows : matrix.columns;
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row) {
      const Sum x =
          widen(matrix.transpose ? from[row * matrix.leading + column] : from[column * matrix.leading + row]);
      to[column * rows + row] = factor(x, precision);
    }
  }
}

/// Computes kColumns columns of first x second. All matrices are dense, column by column. Algorithm 1 begins
/// with the last products.
template <class Sum>
void multiply(const Sum* __restrict first, const Sum* __restrict second, Sum* __restrict output, int64_t rows,
              int64_t summed, int algorithm) {
  std::fill(output, output + kColumns * rows, Sum{0});
  for (int64_t step = 0; step < summed; ++step) {
    const int64_t l = algorithm == 0 ? step : summed - 1 - step;
    for (int64_t column = 0; column < kColumns; ++column) {
      const Sum x = second[column * summed + l];
      for (int64_t row = 0; row < rows; ++row) output[column * rows + row] += first[l * rows + row] * x;
    }
  }
}

template <class Sum>
Sum apply(Epilogue epilogue, Sum x) {
  switch (epilogue) {
    case Epilogue::kNone:
      return x;
    case Epilogue::kGelu:
      return formulas::Gelu::f(x, Sum{0});
    case Epilogue::kRelu:
      return x > 0 ? x : Sum{0};
  }
  MTF_CHECK(false, "unknown epilogue");
}

/// The pointers passed to run().
struct Operands {
  const void* a;
  const void* b;
  void* c;
  const void* bias;
  const void* addend;
};

template <class Input, class Output>
void run_part(const MatmulProblem& problem, int64_t begin, const Operands& operands, int algorithm) {
  using Sum = Computed<Input>;
  const ColumnMajorProblem matrices = column_major(problem);
  const int64_t rows = problem.n, columns = problem.m, summed = problem.k;
  std::vector<Sum> first(static_cast<size_t>(rows * summed));
  std::vector<Sum> second(static_cast<size_t>(summed * (columns + kColumns)));
  std::vector<Sum> sums(static_cast<size_t>(rows * kColumns));
  for (int64_t batch = begin; batch < begin + problem.batch; ++batch) {
    widen_matrix(matrices.first, static_cast<const Input*>(operands.b) + batch * matrices.first.batch_stride,
                 problem.precision, first.data());
    widen_matrix(matrices.second,
                 static_cast<const Input*>(operands.a) + batch * matrices.second.batch_stride,
                 problem.precision, second.data());
    Output* output = static_cast<Output*>(operands.c) + batch * matrices.output.batch_stride;
    const Output* addend = static_cast<const Output*>(operands.addend) + batch * matrices.output.batch_stride;
    for (int64_t begun = 0; begun < columns; begun += kColumns) {
      multiply(first.data(), second.data() + begun * summed, sums.data(), rows, summed, algorithm);
      for (int64_t i = 0; i < std::min(kColumns, columns - begun); ++i) {
        const int64_t begin_of_column = (begun + i) * matrices.output.leading;
        Output* column = output + begin_of_column;
        const Output* added = addend + begin_of_column;
        for (int64_t row = 0; row < rows; ++row) {
          Sum sum = sums[static_cast<size_t>(i * rows + row)];
          if (problem.accumulate) sum += static_cast<Sum>(widen(added[row]));
          if (problem.bias) sum += static_cast<Sum>(widen(static_cast<const Output*>(operands.bias)[row]));
          column[row] = narrow<Output>(apply(problem.epilogue, sum));
        }
      }
    }
  }
}

void run_part(const MatmulProblem& problem, int64_t begin, const Operands& operands, int algorithm) {
  switch (problem.input) {
    case DType::kFloat32:
      return run_part<float, float>(problem, begin, operands, algorithm);
    case DType::kFloat64:
      return run_part<double, double>(problem, begin, operands, algorithm);
    default:
      return problem.output == DType::kFloat32
                 ? run_part<BFloat16, float>(problem, begin, operands, algorithm)
                 : run_part<BFloat16, BFloat16>(problem, begin, operands, algorithm);
  }
}

class EmulatedMatmul final : public Matmul {
 public:
  EmulatedMatmul(EmulatedDevice& device, const MatmulProblem& problem, int algorithm)
      : device_(device), problem_(problem), algorithm_(algorithm) {}
  int64_t workspace_bytes() const override { return kWorkspaceBytes; }
  void run(const void* a, const void* b, void* c, void* workspace, const void* bias,
           const void* addend) const override {
    MTF_CHECK((bias != nullptr) == problem_.bias, "a bias, or none");
    if (addend == nullptr) addend = c;
    const auto check = [](const void* address, int64_t alignment) {
      MTF_CHECK(reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(alignment) == 0,
                "{} is not a multiple of {}", address, alignment);
    };
    check(a, problem_.alignment_a);
    check(b, problem_.alignment_b);
    check(c, problem_.alignment_c);
    check(addend, problem_.alignment_c);
    check(bias, kBiasAlignment);
    device_.enqueue(device_.compute(), [problem = problem_, operands = Operands{a, b, c, bias, addend},
                                        workspace, algorithm = algorithm_] {
      MemoryAccess::open_all();
      std::memset(workspace, 0xff, kWorkspaceBytes);
      for (const MatmulPart& part : parts_of(problem))
        run_part(part.problem, part.begin, operands, algorithm);
    });
  }

 private:
  EmulatedDevice& device_;
  MatmulProblem problem_;
  int algorithm_;
};

MatmulLimits limits_of_environment() {
  const char* variable = std::getenv("MTF_EMULATED_MATMULS");
  const std::string_view limit = variable == nullptr ? "" : variable;
  MatmulLimits limits;
  if (limit == "plain") {
    limits.epilogues = false;
  } else if (limit == "aligned") {
    limits = {.epilogues = false, .alignment = 16};
  } else if (limit == "none") {
    limits.products = false;
  } else {
    MTF_CHECK(limit.empty(), "MTF_EMULATED_MATMULS={}", limit);
  }
  return limits;
}

/// True if a library with these limits has algorithms for the problem.
bool is_possible(const MatmulProblem& problem, const MatmulLimits& limits) {
  const ColumnMajorProblem matrices = column_major(problem);
  const int64_t alignment =
      std::min({matrices.first.alignment, matrices.second.alignment, matrices.output.alignment});
  const bool finishes = problem.bias || problem.epilogue != Epilogue::kNone;
  return limits.products && alignment >= limits.alignment && (limits.epilogues || !finishes);
}

class EmulatedMatmulLibrary final : public MatmulLibrary {
 public:
  explicit EmulatedMatmulLibrary(EmulatedDevice& device) : device_(device), plans_(device) {}
  std::string version() const override { return "emulated" + library_environment(); }
  void tune(TuningRecord& record) override { plans_.tune(record); }
  std::shared_ptr<const Matmul> prepare(const MatmulProblem& problem) override {
    if (!is_possible(problem, matmul_limits())) return nullptr;
    return plans_.find_or_make(problem, [&](const MatmulProblem& canonical, int most) {
      std::vector<std::shared_ptr<const Matmul>> plans;
      for (int algorithm = 0; algorithm < std::min(most, kAlgorithms); ++algorithm)
        plans.push_back(std::make_shared<const EmulatedMatmul>(device_, canonical, algorithm));
      return plans;
    });
  }

 private:
  EmulatedDevice& device_;
  MatmulCache plans_;
};

}  // namespace

MatmulLimits& matmul_limits() {
  static MatmulLimits limits = limits_of_environment();
  return limits;
}

std::unique_ptr<MatmulLibrary> make_matmul_library(EmulatedDevice& device) {
  return std::make_unique<EmulatedMatmulLibrary>(device);
}

}  // namespace mtf::cuda::emulator
