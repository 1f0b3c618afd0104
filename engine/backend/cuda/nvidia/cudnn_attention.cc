#include "engine/backend/cuda/nvidia/cudnn_attention.h"

#include <limits>

namespace mtf::cuda::cudnn {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();
constexpr float kOne = 1;

}  // namespace

AttentionGraph::AttentionGraph(const Functions& cudnn, const LibraryAttentionProblem& problem)
    : problem_(problem), graph_(cudnn) {
  const auto& [batch, heads, queries, memory, key, value, causal, bias, gradient, q, k, v, result] = problem_;
  q_ = matrices(queries, key, q);
  k_ = transposes(memory, key, k);
  v_ = gradient ? transposes(memory, value, v) : matrices(memory, value, v);
  result_ = matrices(queries, value, result);
  log_sums_ = numbers_of_queries();
  if (causal) hidden_ = graph_.number();
  if (bias) {
    const int64_t row = bias_row(memory);
    bias_ = graph_.operand(
        {{batch, 1, queries, memory}, {queries * row, queries * row, row, 1}, DataType::kBFloat16});
  }
  gradient ? build_gradient() : build_forward();
}

void AttentionGraph::build_forward() {
  const Graph::Tensor logits = masked(biased(graph_.matmul(q_, k_)));
  const Graph::Tensor top = graph_.reduce(Reduction::kMax, logits);
  const Graph::Tensor terms =
      graph_.pointwise(Pointwise::kExp, graph_.pointwise(Pointwise::kSubtract, logits, top));
  const Graph::Tensor sums = graph_.reduce(Reduction::kAdd, terms);
  graph_.pointwise(Pointwise::kAdd, top, graph_.pointwise(Pointwise::kLog, sums), log_sums_);
  const Graph::Tensor weights = graph_.pointwise(Pointwise::kDivide, terms, sums, {}, DataType::kBFloat16);
  graph_.matmul(weights, v_, result_);
}

void AttentionGraph::build_gradient() {
  d_result_ = matrices(problem_.queries, problem_.value, problem_.result);
  d_q_ = matrices(problem_.queries, problem_.key, problem_.q);
  d_k_ = matrices(problem_.memory, problem_.key, problem_.k);
  d_v_ = matrices(problem_.memory, problem_.value, problem_.v);
  row_sums_ = numbers_of_queries();
  one_ = graph_.number();

  const Graph::Tensor products = graph_.pointwise(Pointwise::kMultiply, d_result_, result_);
  graph_.pointwise(Pointwise::kMultiply, graph_.reduce(Reduction::kAdd, products), one_, row_sums_);

  const Graph::Tensor logits = biased(graph_.matmul(q_, k_));
  const Graph::Tensor weights =
      graph_.pointwise(Pointwise::kExp, masked(graph_.pointwise(Pointwise::kSubtract, logits, log_sums_)));
  graph_.matmul(graph_.transposed(weights, DataType::kBFloat16), d_result_, d_v_);

  const Graph::Tensor d_weights = graph_.matmul(d_result_, v_);
  const Graph::Tensor d_logits = graph_.pointwise(
      Pointwise::kMultiply, graph_.pointwise(Pointwise::kSubtract, d_weights, row_sums_), weights);
  graph_.matmul(graph_.transposed(d_logits, DataType::kBFloat16), q_, d_k_);
  graph_.matmul(d_logits, graph_.transposed(k_, DataType::kBFloat16), d_q_);
}

Graph::Tensor AttentionGraph::matrices(int64_t rows, int64_t columns, const MatrixStrides& strides) {
  return graph_.operand({.sizes = {problem_.batch, problem_.heads, rows, columns},
                         .strides = {strides.batch, strides.head, strides.row, 1},
                         .type = DataType::kBFloat16});
}

Graph::Tensor AttentionGraph::transposes(int64_t rows, int64_t columns, const MatrixStrides& strides) {
  return graph_.operand({.sizes = {problem_.batch, problem_.heads, columns, rows},
                         .strides = {strides.batch, strides.head, 1, strides.row},
                         .type = DataType::kBFloat16});
}

Graph::Tensor AttentionGraph::numbers_of_queries() {
  const int64_t heads = problem_.heads, queries = problem_.queries;
  return graph_.operand(
      {.sizes = {problem_.batch, heads, queries, 1}, .strides = {heads * queries, queries, 1, 1}});
}

Graph::Tensor AttentionGraph::biased(Graph::Tensor logits) {
  return problem_.bias ? graph_.pointwise(Pointwise::kAdd, logits, bias_) : logits;
}

Graph::Tensor AttentionGraph::masked(Graph::Tensor logits) {
  if (!problem_.causal) return logits;
  const Graph::Tensor query = graph_.index(logits, 2), entry = graph_.index(logits, 3);
  const Graph::Tensor sees =
      graph_.pointwise(Pointwise::kGreaterOrEqual, query, entry, {}, DataType::kBoolean);
  return graph_.select(sees, logits, hidden_);
}

Addresses AttentionGraph::addresses(const LibraryAttentionOperands& operands, float* row_sums) const {
  Addresses addresses{{q_, operands.q},
                      {k_, operands.k},
                      {v_, operands.v},
                      {result_, operands.result},
                      {log_sums_, operands.log_sums}};
  if (problem_.causal) addresses[hidden_] = &kHidden;
  if (problem_.bias) addresses[bias_] = operands.bias;
  if (problem_.gradient) {
    addresses.insert({{d_result_, operands.d_result},
                      {d_q_, operands.d_q},
                      {d_k_, operands.d_k},
                      {d_v_, operands.d_v},
                      {row_sums_, row_sums},
                      {one_, &kOne}});
  }
  return addresses;
}

}  // namespace mtf::cuda::cudnn
