// The passes of Adafactor over the large tensors. The operands are read together, piece by piece. A piece is
// a run of at most kPiece elements of the weight, along which every smaller operand (factors, sums, scales)
// either advances too or stays constant.
#include "engine/ops/adafactor.h"

#include <cmath>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"
#include "engine/backend/strided.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

constexpr int64_t kPiece = 2048;

/// Pieces of the weight (operand 0) with N - 1 smaller operands.
template <int N>
struct Pieces {
  StridedAxes<N> outer;
  StridedAxis<N> inner;

  int64_t per_row() const { return (inner.size + kPiece - 1) / kPiece; }
  int64_t count() const { return size_of(outer) * per_row(); }
  /// The number of pieces of a task.
  int64_t per_task() const { return std::max<int64_t>(1, kElementsPerTask / std::min(kPiece, inner.size)); }

  /// Calls visit(offsets, n) for pieces [begin, end).
  template <class Visit>
  void each(int64_t begin, int64_t end, Visit visit) const {
    const int64_t n = per_row();
    for (int64_t piece = begin; piece < end;) {
      const int64_t row = piece / n, row_end = std::min(end, (row + 1) * n);
      if (n == 1) {
        for_each_offset(outer, piece, end, [&](const Offsets<N>& at) { visit(at, inner.size); });
        return;
      }
      const Offsets<N> start = offsets_of(outer, row);
      for (; piece < row_end; ++piece) {
        const int64_t first = piece % n * kPiece;
        Offsets<N> at = start;
        for (int i = 0; i < N; ++i) at[i] += first * inner.strides[i];
        visit(at, std::min(kPiece, inner.size - first));
      }
    }
  }
};

/// The pieces of these operands. The stride of an operand is 0 along dimensions that it lacks, and everywhere
/// if it is null. Dimensions that only a smaller operand has (its blocks) are ignored.
template <int N>
Pieces<N> pieces_of(const std::array<const LocalTensor*, N>& operands) {
  StridedAxes<N> axes;
  for (const Dimension& d : operands[0]->local) {
    StridedAxis<N> axis{d.size, {}};
    for (int i = 0; i < N; ++i) {
      const std::optional<int> position = operands[i] ? operands[i]->local.find(d.name) : std::nullopt;
      if (position) axis.strides[i] = operands[i]->local.strides()[*position];
    }
    axes.push_back(axis);
  }
  Pieces<N> pieces{joined(axes), {}};
  if (!pieces.outer.empty()) {
    pieces.inner = pieces.outer.back();
    pieces.outer.pop_back();
  } else {
    pieces.inner.strides.fill(1);
  }
  return pieces;
}

/// squares[i] = x[i]^2; returns their sum.
template <class T>
MTF_INLINE double square(const T* x, int64_t n, double* squares) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double value = widen(x[i]);
    squares[i] = value * value;
    sum += squares[i];
  }
  return sum;
}

MTF_INLINE void add_to(double* total, const double* values, int64_t n) {
  for (int64_t i = 0; i < n; ++i) total[i] += values[i];
}

/// Adds a piece's squares to an output that advances along the piece, or their sum to one that does not.
void accumulate(double* total, int64_t stride, const double* squares, double sum, int64_t n) {
  if (stride == 0) {
    *total += sum;
  } else {
    dispatched<add_to>(total, squares, n);
  }
}

/// Task b computes block b of every output from its share of the pieces.
template <class T>
class SumsKernel final : public Kernel {
 public:
  explicit SumsKernel(const KernelContext& context) {
    const auto& operation = static_cast<const AdafactorSums&>(context.operation);
    factored_ = operation.summed.rank() == 2;
    weights_ = operation.weight_sums ? operation.summed.rank() : -1;
    const auto output = [&](int i) { return i >= 0 ? &context.outputs[i] : nullptr; };
    pieces_ = pieces_of<4>(
        {&context.inputs[0], output(factored_ ? 0 : -1), output(factored_ ? 1 : -1), output(weights_)});
    const std::optional<Dimension> blocks = adafactor_blocks(context.inputs[0].global);
    blocks_ = blocks ? blocks->size : 1;
    for (const LocalTensor& t : context.outputs) block_sizes_.push_back(t.local.size() / blocks_);
  }
  int64_t tasks() const override { return blocks_; }
  size_t scratch_bytes() const override { return kPiece * sizeof(double); }

  int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
    double* squares = reinterpret_cast<double*>(call.scratch);
    for (int64_t block = begin; block < end; ++block) {
      for (int i = 0; i < static_cast<int>(block_sizes_.size()); ++i) {
        double* out = output(call, i, block);
        std::fill(out, out + block_sizes_[i], 0.0);
      }
      pieces_.each(pieces_.count() * block / blocks_, pieces_.count() * (block + 1) / blocks_,
                   [&](const Offsets<4>& at, int64_t n) { add_piece(call, block, at, n, squares); });
    }
    return 0;
  }

 private:
  using A = Computed<T>;

  double* output(const KernelCall& call, int i, int64_t block) const {
    return call.output<double>(i) + block * block_sizes_[i];
  }

  void add_piece(const KernelCall& call, int64_t block, const Offsets<4>& at, int64_t n,
                 double* squares) const {
    if (factored_) {
      const double sum = dispatched<square<A>>(call.input<A>(1) + at[0], n, squares);
      accumulate(output(call, 0, block) + at[1], pieces_.inner.strides[1], squares, sum, n);
      accumulate(output(call, 1, block) + at[2], pieces_.inner.strides[2], squares, sum, n);
    }
    if (weights_ >= 0) {
      const double sum = dispatched<square<T>>(call.input<T>(0) + at[0], n, squares);
      accumulate(output(call, weights_, block) + at[3], pieces_.inner.strides[3], squares, sum, n);
    }
  }

  bool factored_ = false;
  int weights_ = -1;  ///< index of the output with the sums of w^2, or -1
  int64_t blocks_ = 1;
  std::vector<int64_t> block_sizes_;
  Pieces<4> pieces_;
};

template <class A>
MTF_INLINE void second_moment(const A* v, const A* g, A* new_v, A decay, A epsilon1, int64_t begin,
                              int64_t end) {
#pragma GCC ivdep
  for (int64_t i = begin; i < end; ++i) new_v[i] = decay * v[i] + (1 - decay) * (g[i] * g[i] + epsilon1);
}

/// The factors that g is multiplied with to give the update: row factor * column factor, or 1 / sqrt(v).
template <class A>
struct Factors {
  const A *first, *second;  ///< `second` is null for v
  int64_t first_stride, second_stride;
};

template <class A>
MTF_INLINE void compute_update(const A* g, const Factors<A>& factors, int64_t n, A* update) {
  const A *first = factors.first, *second = factors.second;
  if (second == nullptr) {
    for (int64_t i = 0; i < n; ++i) update[i] = g[i] / std::sqrt(first[i]);
  } else if (factors.first_stride == 0) {
    for (int64_t i = 0; i < n; ++i) update[i] = g[i] * *first * second[i];
  } else if (factors.second_stride == 0) {
    for (int64_t i = 0; i < n; ++i) update[i] = g[i] * first[i] * *second;
  } else {
    for (int64_t i = 0; i < n; ++i) update[i] = g[i] * first[i] * second[i];
  }
}

template <class A>
MTF_INLINE double sum_of_squares(const A* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

/// The factors are inputs `first` and `first` + 1, which are operands 1 and 2 of the pieces.
template <class A, class Offsets, class Pieces>
Factors<A> factors_at(const KernelCall& call, int first, bool factored, const Offsets& at,
                      const Pieces& pieces) {
  return {call.input<A>(first) + at[1], factored ? call.input<A>(first + 1) + at[2] : nullptr,
          pieces.inner.strides[1], pieces.inner.strides[2]};
}

template <class A>
std::unique_ptr<Kernel> squares_kernel(const KernelContext& context) {
  const bool factored = context.inputs.size() == 3;
  const auto pieces =
      pieces_of<3>({&context.inputs[0], &context.inputs[1], factored ? &context.inputs[2] : nullptr});
  const int64_t blocks = context.outputs[0].local.size();
  return make_kernel(
      blocks, 1,
      [=](const KernelCall& call, int64_t block, int64_t) {
        A* update = reinterpret_cast<A*>(call.scratch);
        double sum = 0;
        pieces.each(pieces.count() * block / blocks, pieces.count() * (block + 1) / blocks,
                    [&](const Offsets<3>& at, int64_t n) {
                      dispatched<compute_update<A>>(call.input<A>(0) + at[0],
                                                    factors_at<A>(call, 1, factored, at, pieces), n, update);
                      sum += dispatched<sum_of_squares<A>>(update, n);
                    });
        call.output<double>(0)[block] = sum;
      },
      kPiece * sizeof(A));
}

/// One piece of the update: w and m move by scale * x, where x is in `update`.
template <class T>
struct Step {
  const T* w;
  T* new_w;
  const Computed<T>* m;  ///< null without momentum
  Computed<T>* new_m;
  const Computed<T>* scale;
  int64_t scale_stride;
  Computed<T> beta1, rest1;  ///< rest1 = 1 - beta1
};
template <class T>
MTF_INLINE void apply_update(const Step<T>& step, int64_t n, Computed<T>* update) {
  using A = Computed<T>;
  const auto [w, new_w, m, new_m, scale, scale_stride, beta1, rest1] = step;
  if (scale_stride == 0) {
    for (int64_t i = 0; i < n; ++i) update[i] *= *scale;
  } else {
    for (int64_t i = 0; i < n; ++i) update[i] *= scale[i];
  }
  if (m != nullptr) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const A moved = beta1 * m[i] + rest1 * update[i];
      new_m[i] = moved;
      update[i] = moved;
    }
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) new_w[i] = narrow<T>(widen(w[i]) - update[i]);
}

template <class T>
std::unique_ptr<Kernel> apply_kernel(const KernelContext& context) {
  using A = Computed<T>;
  const auto& operation = static_cast<const AdafactorApply&>(context.operation);
  const int first = operation.first_factor();
  const bool factored = static_cast<int>(context.inputs.size()) == first + 2, moving = operation.beta1 > 0;
  const auto pieces = pieces_of<4>({&context.inputs[0], &context.inputs[first],
                                    factored ? &context.inputs[first + 1] : nullptr, &context.inputs[2]});
  const A beta1 = static_cast<A>(operation.beta1), rest1 = static_cast<A>(1 - operation.beta1);
  return make_kernel(
      pieces.count(), pieces.per_task(),
      [=](const KernelCall& call, int64_t begin, int64_t end) {
        A* update = reinterpret_cast<A*>(call.scratch);
        pieces.each(begin, end, [&](const Offsets<4>& at, int64_t n) {
          dispatched<compute_update<A>>(call.input<A>(1) + at[0],
                                        factors_at<A>(call, first, factored, at, pieces), n, update);
          const Step<T> step{call.input<T>(0) + at[0],
                             call.output<T>(0) + at[0],
                             moving ? call.input<A>(3) + at[0] : nullptr,
                             moving ? call.output<A>(1) + at[0] : nullptr,
                             call.input<A>(2) + at[3],
                             pieces.inner.strides[3],
                             beta1,
                             rest1};
          dispatched<apply_update<T>>(step, n, update);
        });
      },
      kPiece * sizeof(A));
}

template <class A>
std::unique_ptr<Kernel> second_moment_kernel(const KernelContext& context) {
  const A epsilon1 = static_cast<A>(static_cast<const AdafactorSecondMoment&>(context.operation).epsilon1);
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [epsilon1](const KernelCall& call, int64_t begin, int64_t end) {
                       dispatched<second_moment<A>>(call.input<A>(0), call.input<A>(1), call.output<A>(0),
                                                    *call.input<A>(2), epsilon1, begin, end);
                     });
}

template <class T>
std::unique_ptr<Kernel> sums_kernel(const KernelContext& context) {
  return std::make_unique<SumsKernel<T>>(context);
}

/// Registers the operations that are keyed by the weight's dtype.
template <class T>
struct WeightRegistrations {
  static constexpr DType dtype = DTypeOf<T>::value;
  KernelRegistration sums{"adafactor_sums", {dtype}, sums_kernel<T>};
  KernelRegistration apply{"adafactor_apply", {dtype}, apply_kernel<T>};
};
/// Registers the operations that are keyed by the slots' dtype.
template <class A>
struct SlotRegistrations {
  static constexpr DType dtype = DTypeOf<A>::value;
  KernelRegistration second_moment{"adafactor_second_moment", {dtype}, second_moment_kernel<A>};
  KernelRegistration squares{"adafactor_update_squares", {dtype}, squares_kernel<A>};
};
const WeightRegistrations<float> weights_f32;
const WeightRegistrations<double> weights_f64;
const WeightRegistrations<BFloat16> weights_bf16;
const SlotRegistrations<float> slots_f32;
const SlotRegistrations<double> slots_f64;

}  // namespace
}  // namespace mtf
