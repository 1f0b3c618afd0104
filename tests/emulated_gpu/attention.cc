// Attention of a library by loops, in the terms of library_attention.h. Sums are in double, and weights and
// their gradients are rounded to bfloat16 before they are multiplied, as on tensor cores.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/backend/element.h"
#include "engine/base/check.h"
#include "tests/emulated_gpu/emulated_device.h"

namespace mtf::cuda::emulator {
namespace {

/// The size of the workspace; every call fills it with NaN.
constexpr int64_t kWorkspaceBytes = 512;

double rounded(double x) { return widen(narrow<BFloat16>(static_cast<float>(x))); }

/// The matrix of one batch and head.
template <class T>
struct Matrix {
  T* data;
  int64_t row;

  T& at(int64_t i, int64_t column) const { return data[i * row + column]; }
};

class OneHead {
 public:
  OneHead(const LibraryAttentionProblem& problem, const LibraryAttentionOperands& operands, int64_t batch,
          int64_t head)
      : p_(problem),
        q_(matrix<const BFloat16>(operands.q, p_.q, batch, head)),
        k_(matrix<const BFloat16>(operands.k, p_.k, batch, head)),
        v_(matrix<const BFloat16>(operands.v, p_.v, batch, head)),
        d_result_(matrix<const BFloat16>(operands.d_result, p_.result, batch, head)),
        result_(matrix<BFloat16>(operands.result, p_.result, batch, head)),
        d_q_(matrix<BFloat16>(operands.d_q, p_.q, batch, head)),
        d_k_(matrix<BFloat16>(operands.d_k, p_.k, batch, head)),
        d_v_(matrix<BFloat16>(operands.d_v, p_.v, batch, head)),
        bias_(operands.bias + batch * p_.queries * bias_row(p_.memory)),
        log_sums_(operands.log_sums + (batch * p_.heads + head) * p_.queries),
        terms_(static_cast<size_t>(p_.memory)) {}

  void forward() {
    for (int64_t i = 0; i < p_.queries; ++i) {
      compute_logits(i);
      const double top = *std::ranges::max_element(terms_);
      double sum = 0;
      for (double& term : terms_) sum += term = std::exp(term - top);
      log_sums_[i] = static_cast<float>(top + std::log(sum));
      for (int64_t c = 0; c < p_.value; ++c) {
        double y = 0;
        for (int64_t j = 0; j < p_.memory; ++j) y += rounded(term(j) / sum) * widen(v_.at(j, c));
        result_.at(i, c) = narrow<BFloat16>(static_cast<float>(y));
      }
    }
  }

  void gradient() {
    std::vector<double> d_k(static_cast<size_t>(p_.memory * p_.key)),
        d_v(static_cast<size_t>(p_.memory * p_.value));
    for (int64_t i = 0; i < p_.queries; ++i) {
      compute_logits(i);
      std::vector<double> d_q(static_cast<size_t>(p_.key));
      const double row_sum = product(d_result_, i, result_, i, p_.value);
      for (int64_t j = 0; j < p_.memory; ++j) {
        const double weight = std::exp(term(j) - log_sums_[i]);
        for (int64_t c = 0; c < p_.value; ++c)
          d_v[static_cast<size_t>(j * p_.value + c)] += rounded(weight) * widen(d_result_.at(i, c));
        const double d_logit = rounded(weight * (product(d_result_, i, v_, j, p_.value) - row_sum));
        for (int64_t c = 0; c < p_.key; ++c) {
          d_q[static_cast<size_t>(c)] += d_logit * widen(k_.at(j, c));
          d_k[static_cast<size_t>(j * p_.key + c)] += d_logit * widen(q_.at(i, c));
        }
      }
      store(d_q, d_q_, i, 1, p_.key);
    }
    store(d_k, d_k_, 0, p_.memory, p_.key);
    store(d_v, d_v_, 0, p_.memory, p_.value);
  }

 private:
  template <class T, class Data>
  static Matrix<T> matrix(Data* data, const MatrixStrides& strides, int64_t batch, int64_t head) {
    return {static_cast<T*>(data) + batch * strides.batch + head * strides.head, strides.row};
  }
  template <class A, class B>
  static double product(const Matrix<A>& a, int64_t i, const Matrix<B>& b, int64_t j, int64_t columns) {
    double sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += widen(a.at(i, c)) * widen(b.at(j, c));
    return sum;
  }
  static void store(const std::vector<double>& from, const Matrix<BFloat16>& to, int64_t first, int64_t rows,
                    int64_t columns) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t c = 0; c < columns; ++c)
        to.at(first + i, c) =
            narrow<BFloat16>(static_cast<float>(from[static_cast<size_t>(i * columns + c)]));
    }
  }

  double& term(int64_t j) { return terms_[static_cast<size_t>(j)]; }
  void compute_logits(int64_t i) {
    for (int64_t j = 0; j < p_.memory; ++j) {
      const bool sees = !p_.causal || j <= i;
      term(j) = sees ? product(q_, i, k_, j, p_.key) : -std::numeric_limits<double>::infinity();
      if (sees && p_.bias) term(j) += widen(bias_[i * bias_row(p_.memory) + j]);
    }
  }

  const LibraryAttentionProblem& p_;
  Matrix<const BFloat16> q_, k_, v_, d_result_;
  Matrix<BFloat16> result_, d_q_, d_k_, d_v_;
  const BFloat16* bias_;
  float* log_sums_;
  std::vector<double> terms_;
};

class EmulatedAttention final : public LibraryAttention {
 public:
  EmulatedAttention(EmulatedDevice& device, const LibraryAttentionProblem& problem)
      : device_(device), problem_(problem) {}
  int64_t workspace_bytes() const override { return kWorkspaceBytes; }
  void run(const LibraryAttentionOperands& operands, std::byte* workspace) const override {
    for (const void* x : {operands.q, operands.k, operands.v, static_cast<const void*>(operands.result)})
      MTF_CHECK(reinterpret_cast<uintptr_t>(x) % 16 == 0, "{} is not a multiple of 16", x);
    device_.enqueue(device_.compute(), [problem = problem_, operands, workspace] {
      MemoryAccess::open_all();
      std::memset(workspace, 0xff, kWorkspaceBytes);
      for (int64_t i = 0; i < problem.batch * problem.heads; ++i) {
        OneHead head(problem, operands, i / problem.heads, i % problem.heads);
        problem.gradient ? head.gradient() : head.forward();
      }
    });
  }

 private:
  EmulatedDevice& device_;
  LibraryAttentionProblem problem_;
};

class EmulatedAttentionLibrary final : public AttentionLibrary {
 public:
  explicit EmulatedAttentionLibrary(EmulatedDevice& device) : device_(device) {}
  std::string version() const override { return "emulated cudnn"; }
  std::shared_ptr<const LibraryAttention> prepare(const LibraryAttentionProblem& problem) override {
    if (problem.memory == kUnsupportedMemory) return nullptr;
    return std::make_shared<const EmulatedAttention>(device_, problem);
  }

 private:
  EmulatedDevice& device_;
};

}  // namespace

std::unique_ptr<AttentionLibrary> make_attention_library(EmulatedDevice& device) {
  return std::make_unique<EmulatedAttentionLibrary>(device);
}

}  // namespace mtf::cuda::emulator
