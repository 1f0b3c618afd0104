#include "engine/backend/cuda/attention/library_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "engine/backend/cuda/attention/attention_plan.h"
#include "engine/backend/cuda/attention/segment_bias.h"
#include "engine/backend/cuda/movement/transpose.h"
#include "engine/base/integer_division.h"

namespace mtf::cuda {
namespace {

constexpr int kMostColumns = 128, kColumnPack = 8;
/// Up to as many queries another kernel is faster (attention_few_rows.h).
constexpr int kFewQueries = 8;
/// The most scratch memory where the library is used because it is faster.
constexpr size_t kMostScratch = size_t{4} << 30;
/// The alignment of parts of scratch.
constexpr int64_t kAlignment = 64;

bool is_whole(const LocalTensor& tensor, const std::string& dimension) {
  const auto axis = tensor.global.find(dimension);
  return !axis || tensor.local[*axis].size == tensor.global[*axis].size;
}

bool has_columns(int count) { return count <= kMostColumns && count % kColumnPack == 0; }

/// Why the library does not compute the operation; empty if it may.
std::string obstacle(const KernelContext& context, const AttentionView& view, bool has_segments) {
  const auto& operation = static_cast<const AttentionOperation&>(context.operation);
  const LocalTensor& q = context.inputs[0];
  if (q.dtype != DType::kBFloat16) return fmt::format("in {}", name_of(q.dtype));
  if (view.has(AttentionView::kBiasTable)) return "with a bias";
  if (view.has(AttentionView::kNoise)) return "with dropout";
  if (view.has_extra_logit()) return "with an extra logit";
  if (view.has_soft_cap()) return "with a soft cap";
  if (view.has(AttentionView::kQueryPriority) || view.has(AttentionView::kMemoryPriority))
    return "with priorities";
  if (view.by_lower || view.by_upper) return "within a window";
  if (has_segments && !operation.own_segments) return "to segments of another sequence";
  if (!is_whole(q, operation.options.query_length)) return "of a part of the queries";
  if (view.fold > 1 || view.heads > 1) return "with heads that share keys";
  if (view.rows <= kFewQueries) return "of few queries";
  if (!has_columns(view.key) || !has_columns(view.value) || !view.aligned)
    return fmt::format("with heads of {} columns", view.key);
  if (view.groups.rank() > 2 || (has_segments && view.groups.rank() == 2 &&
                                 view.groups.inner_stride(AttentionView::kQuerySegment) != 0))
    return "in an unusual memory order";
  if (context.guarded) return "on a condition";
  return "";
}

class ProblemOfView {
 public:
  ProblemOfView(const AttentionView& view, bool has_segments)
      : view_(view),
        has_segments_(has_segments),
        heads_(view.groups.rank() == 2 ? view.groups.inner_size() : 1),
        batch_(view.groups.size() / heads_) {}

  LibraryAttentionProblem problem(bool causal, bool is_gradient) const {
    return {.batch = batch_,
            .heads = heads_,
            .queries = view_.rows,
            .memory = view_.memory,
            .key = view_.key,
            .value = view_.value,
            .causal = causal,
            .bias = has_segments_,
            .gradient = is_gradient,
            .q = strides(AttentionView::kQ, view_.length_strides[AttentionView::kQ]),
            .k = strides(AttentionView::kK, view_.key_stride),
            .v = strides(AttentionView::kV, view_.value_stride),
            .result = strides(AttentionView::kResult, view_.length_strides[AttentionView::kResult])};
  }
  bool has_segments() const { return has_segments_; }
  int64_t batch() const { return batch_; }
  /// Entries between the segments of adjacent batches.
  int64_t segment_stride() const { return strides(AttentionView::kQuerySegment, 1).batch; }
  /// The axes of log-sums from dense memory, row-major, to their own. Nothing if they are dense themselves.
  StridedAxes<2> log_sum_axes() const {
    const MatrixStrides own = strides(AttentionView::kLogSum, view_.length_strides[AttentionView::kLogSum]);
    const int64_t rows = view_.rows;
    StridedAxes<2> axes{
        {batch_, {heads_ * rows, own.batch}}, {heads_, {rows, own.head}}, {rows, {1, own.row}}};
    for (const auto& axis : axes)
      if (axis.size > 1 && axis.strides[0] != axis.strides[1]) return axes;
    return {};
  }

 private:
  /// Strides of axes of one entry are as if all were dense.
  MatrixStrides strides(int operand, int64_t row) const {
    const int64_t head = heads_ > 1 ? view_.groups.inner_stride(operand) : row * view_.rows;
    return {
        .batch = batch_ > 1 ? view_.groups.offset(heads_, operand) : head * heads_, .head = head, .row = row};
  }

  const AttentionView& view_;
  bool has_segments_;
  int64_t heads_, batch_;
};

class LibraryAttentionLaunches {
 public:
  LibraryAttentionLaunches(AttentionPlan plan, std::shared_ptr<const LibraryAttention> attention,
                           const ProblemOfView& of_view, bool is_gradient)
      : plan_(std::move(plan)), attention_(std::move(attention)), is_gradient_(is_gradient) {
    const AttentionView& view = plan_.view();
    if (of_view.has_segments()) {
      segment_stride_ = of_view.segment_stride();
      batch_ = of_view.batch();
      bias_bytes_ = round_up(
          batch_ * view.rows * bias_row(view.memory) * static_cast<int64_t>(sizeof(BFloat16)), kAlignment);
    }
    const StridedAxes<2> log_sums = of_view.log_sum_axes();
    if (log_sums.empty()) return;
    dense_bytes_ = round_up(size_of(log_sums) * static_cast<int64_t>(sizeof(float)), kAlignment);
    reorder_ = make_reordering(log_sums, is_gradient);
  }
  size_t scratch_bytes() const {
    return static_cast<size_t>(dense_bytes_ + bias_bytes_ + attention_->workspace_bytes());
  }

  void operator()(const Launcher& launch, const KernelCall& call) const {
    const AttentionView view = plan_.view(call);
    auto* own = static_cast<std::byte*>(const_cast<void*>(view.data[AttentionView::kLogSum]));
    std::byte* dense = reorder_ ? call.scratch : own;
    if (reorder_ && is_gradient_) reorder_(launch, own, dense);
    auto* bias = reinterpret_cast<BFloat16*>(call.scratch + dense_bytes_);
    if (bias_bytes_ > 0) {
      write_segment_bias(launch, static_cast<const int32_t*>(view.data[AttentionView::kQuerySegment]),
                         segment_stride_, batch_, view.rows, bias);
    }
    LibraryAttentionOperands operands = operands_of(view, call, reinterpret_cast<float*>(dense));
    operands.bias = bias;
    attention_->run(operands, call.scratch + dense_bytes_ + bias_bytes_);
    if (reorder_ && !is_gradient_) reorder_(launch, dense, own);
  }

 private:
  /// Copies dense log-sums to their own order, or back.
  static Transposition make_reordering(StridedAxes<2> axes, bool to_dense) {
    if (to_dense)
      for (auto& axis : axes) std::swap(axis.strides[0], axis.strides[1]);
    std::ranges::stable_sort(axes, std::greater{}, [](const auto& axis) { return axis.strides[1]; });
    return make_transposition(axes, sizeof(float));
  }

  LibraryAttentionOperands operands_of(const AttentionView& view, const KernelCall& call,
                                       float* log_sums) const {
    LibraryAttentionOperands operands{.q = view.data[AttentionView::kQ],
                                      .k = view.data[AttentionView::kK],
                                      .v = view.data[AttentionView::kV],
                                      .result = const_cast<void*>(view.data[AttentionView::kResult]),
                                      .log_sums = log_sums};
    if (is_gradient_) {
      operands.d_result = call.inputs.back().data;
      operands.d_q = call.outputs[AttentionView::kQ].data;
      operands.d_k = call.outputs[AttentionView::kK].data;
      operands.d_v = call.outputs[AttentionView::kV].data;
    }
    return operands;
  }

  AttentionPlan plan_;
  std::shared_ptr<const LibraryAttention> attention_;
  bool is_gradient_;
  int64_t batch_ = 0, segment_stride_ = 0;
  int64_t dense_bytes_ = 0, bias_bytes_ = 0;  ///< parts of scratch
  Transposition reorder_;                     ///< empty if the log-sums are dense
};

}  // namespace

std::unique_ptr<Kernel> make_library_attention(const KernelContext& context, Device& device) {
  AttentionLibrary* library = device.attention_library();
  if (library == nullptr) return nullptr;
  const bool only_where_faster = device.attention_use() == AttentionLibraryUse::kWhereFaster;
  const auto refuse = [&](const std::string& what) -> std::unique_ptr<Kernel> {
    if (only_where_faster) return nullptr;
    device.note(
        {false, fmt::format("{} does not compute {}: a kernel of mtf-train does", library->version(), what)});
    return nullptr;
  };
  AttentionPlan plan(context, device);
  const AttentionView& view = plan.view();
  const bool has_segments =
      view.by_segment && !static_cast<const AttentionOperation&>(context.operation).options.one_text;
  if (const std::string reason = obstacle(context, view, has_segments); !reason.empty())
    return refuse("attention " + reason);
  if (only_where_faster && has_segments) return nullptr;
  const bool is_gradient = dynamic_cast<const AttentionGradient*>(&context.operation) != nullptr;
  const ProblemOfView of_view(view, has_segments);
  const LibraryAttentionProblem problem = of_view.problem(view.by_priority, is_gradient);
  std::shared_ptr<const LibraryAttention> attention = library->prepare(problem);
  if (attention == nullptr) {
    return refuse(fmt::format("{}attention of {} queries to {} entries, heads of {} columns{}",
                              is_gradient ? "the gradient of " : "", problem.queries, problem.memory,
                              problem.key, problem.bias ? ", with segments" : ""));
  }
  const LibraryAttentionLaunches launches(plan, std::move(attention), of_view, is_gradient);
  if (only_where_faster && launches.scratch_bytes() > kMostScratch) return nullptr;
  return make_device_kernel(device, launches, launches.scratch_bytes(), contraction_flops(context));
}

}  // namespace mtf::cuda
