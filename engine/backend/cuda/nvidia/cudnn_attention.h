// Attention and its gradient as graphs of cuDNN.
#pragma once

#include <cstdint>

#include "engine/backend/cuda/device/library_attention.h"
#include "engine/backend/cuda/nvidia/cudnn_graph.h"

namespace mtf::cuda::cudnn {

/// The graph of a problem. cuDNN recognises the pattern of flash attention, and stores no logits. Of its two
/// forms of the gradient this is the one that gives the same bits in each run: it has no memory where parts of
/// d_q are added atomically, and stores the gradients of all logits in its workspace, as bfloat16. What cuDNN
/// notes about engines (CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) does not tell the two apart.
class AttentionGraph {
 public:
  AttentionGraph(const Functions& cudnn, const LibraryAttentionProblem& problem);

  Graph& graph() { return graph_; }
  /// The addresses of a call. `row_sums` is memory for batch * heads * queries numbers, which the gradient
  /// needs besides the workspace of its plan.
  Addresses addresses(const LibraryAttentionOperands& operands, float* row_sums) const;

 private:
  void build_forward();
  void build_gradient();
  Graph::Tensor matrices(int64_t rows, int64_t columns, const MatrixStrides& strides);
  /// The transposes of matrices in memory.
  Graph::Tensor transposes(int64_t rows, int64_t columns, const MatrixStrides& strides);
  /// A number for each query.
  Graph::Tensor numbers_of_queries();
  /// The logits with their bias, if there is one.
  Graph::Tensor biased(Graph::Tensor logits);
  /// -infinity where an entry comes after its query and attention is causal, else the logits.
  Graph::Tensor masked(Graph::Tensor logits);

  LibraryAttentionProblem problem_;
  Graph graph_;
  Graph::Tensor q_, k_, v_, result_, log_sums_;
  Graph::Tensor hidden_ = 0, bias_ = 0;
  Graph::Tensor d_result_ = 0, d_q_ = 0, d_k_ = 0, d_v_ = 0, row_sums_ = 0, one_ = 0;
};

}  // namespace mtf::cuda::cudnn
