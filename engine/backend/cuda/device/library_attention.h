// Plain attention by a library of the device: cuDNN, or loops of the emulator.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/integer_division.h"
#include "engine/core/dtype.h"

namespace mtf::cuda {

/// Elements between adjacent matrices and rows of a tensor [batch, heads, rows, columns]; its columns are
/// adjacent.
struct MatrixStrides {
  int64_t batch = 0, head = 0, row = 0;

  friend auto operator<=>(const MatrixStrides&, const MatrixStrides&) = default;
};

/// result = softmax(q k^T + bias) v for each batch and head, in bfloat16 with sums in float32; or its gradient.
/// q is queries x key, k is memory x key, v is memory x value. Tensors begin at multiples of 16 bytes, as do
/// their rows. A gradient has the strides of what it is the gradient of.
struct LibraryAttentionProblem {
  /// Rows of a bias are padded to a multiple of so many entries.
  static constexpr int kBiasPack = 8;

  int64_t batch = 1, heads = 1, queries = 1, memory = 1, key = 8, value = 8;
  bool causal = false;  ///< query i sees entries 0 ... i of the memory
  bool bias = false;    ///< there is a bias, the same for all heads
  bool gradient = false;
  MatrixStrides q, k, v, result;

  friend auto operator<=>(const LibraryAttentionProblem&, const LibraryAttentionProblem&) = default;
};

/// The entries of a bias from one query to the next.
constexpr int64_t bias_row(int64_t memory) { return round_up(memory, LibraryAttentionProblem::kBiasPack); }

/// The operands of one call. The forward pass writes `result` and `log_sums`, the gradient reads them.
struct LibraryAttentionOperands {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  const BFloat16* bias = nullptr;  ///< [batch, queries, bias_row(memory)]
  void* result = nullptr;
  float* log_sums = nullptr;  ///< log(sum(exp(logits))): [batch, heads, queries], dense
  const void* d_result = nullptr;
  void *d_q = nullptr, *d_k = nullptr, *d_v = nullptr;
};

class LibraryAttention {
 public:
  virtual ~LibraryAttention() = default;
  virtual int64_t workspace_bytes() const = 0;
  /// Enqueues on the compute stream. `workspace` is aligned to 64 bytes.
  virtual void run(const LibraryAttentionOperands& operands, std::byte* workspace) const = 0;
};

class AttentionLibrary {
 public:
  virtual ~AttentionLibrary() = default;
  /// What the bits of results depend on besides the device, such as "cudnn 9.19.0".
  virtual std::string version() const = 0;
  /// Prepares a plan whose results are the same bits in each run; equal problems share one. Null if the
  /// library has none.
  virtual std::shared_ptr<const LibraryAttention> prepare(const LibraryAttentionProblem& problem) = 0;
};

}  // namespace mtf::cuda
