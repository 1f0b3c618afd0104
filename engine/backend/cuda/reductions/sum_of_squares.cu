// The kernel of sum_of_squares. Gradients are contiguous and summed whole, and a step asks for the sums of all
// of them at once: blocks sum runs of equal length, and a second launch adds the sums of the blocks. The
// function objects are small, so that one launch holds many tensors.
#include "engine/backend/cuda/reductions/reduce_kernels.h"
#include "engine/backend/visit_type.h"
#include "engine/base/integer_division.h"
#include "engine/ops/reduce.h"

namespace mtf::cuda {
namespace {

/// Packs that a thread reads at once, and how often.
constexpr int kPacksAtOnce = 4, kTimesInRun = 4;

/// The number of elements that a block sums.
template <class T>
constexpr int64_t kRunElements = int64_t{kThreads} * kPack<T>* kPacksAtOnce* kTimesInRun;

/// Shared memory of reduce_block.
constexpr int64_t kRunSharedBytes = kWarps * static_cast<int64_t>(sizeof(double));

/// Sums the squares of a run of x in each block.
template <class T>
struct SquaresOfRuns {
  static constexpr bool kBatched = true;

  const T* x;
  int64_t size;
  double* sums;  ///< [block]

  MTF_DEVICE void operator()(const Block& block) const {
    const int64_t begin = block.index() * kRunElements<T>;
    double sum = begin + kRunElements<T> <= size
                     ? sum_run<true>(block, x + begin, kRunElements<T>)
                     : sum_run<false>(block, x + begin, static_cast<int>(size - begin));
    sum = reduce_block(block, sum, Sum{}, block.shared<double>());
    if (block.thread() == 0) sums[block.index()] = sum;
  }

 private:
  /// This thread's part of a run, which is a whole one or the last.
  template <bool IsWhole>
  MTF_DEVICE static double sum_run(const Block& block, const T* run, int count) {
    constexpr int N = kPack<T>;
    double lanes[N] = {};
    MTF_UNROLL(1)
    for (int first = block.thread() * N; first < count; first += kThreads * N * kPacksAtOnce) {
      Pack<T, N> packs[kPacksAtOnce];
      MTF_UNROLL(kPacksAtOnce)
      for (int k = 0; k < kPacksAtOnce; ++k) {
        const int at = first + k * kThreads * N;
        packs[k] = IsWhole ? load<N>(run + at) : load<N>(run + at, std::clamp(count - at, 0, N));
      }
      MTF_UNROLL(kPacksAtOnce)
      for (int k = 0; k < kPacksAtOnce; ++k) {
        for (int i = 0; i < N; ++i) lanes[i] += reductions::SumOfSquares<T>::load(packs[k][i]);
      }
    }
    double sum = 0;
    for (int i = 0; i < N; ++i) sum += lanes[i];
    return sum;
  }
};

/// Adds the sums in a single block.
struct SumOfRuns {
  static constexpr bool kBatched = true;

  const double* sums;
  int64_t count;
  ReducedOutput<double> y;

  MTF_DEVICE void operator()(const Block& block) const {
    double sum = 0;
    for (int64_t i = block.thread(); i < count; i += block.threads()) sum += sums[i];
    sum = reduce_block(block, sum, Sum{}, block.shared<double>());
    if (block.thread() == 0) y.store(0, sum);
  }
};

template <class T>
std::unique_ptr<Kernel> sum_of_squares(const KernelContext& context, Device& device) {
  const ReductionWalk walk = walk_of(context);
  if (walk.kept.size() > 1 || walk.reduced.rank() > 1)
    return row_reduction<reductions::SumOfSquares<T>, T>(context, device);
  const int64_t size = context.inputs[0].local.size();
  const int64_t blocks = std::max<int64_t>(1, ceil_divide(size, kRunElements<T>));
  return make_device_kernel(
      device,
      [=, dtype = context.outputs[0].dtype](const Launcher& launch, const KernelCall& call) {
        auto* sums = reinterpret_cast<double*>(call.scratch);
        launch({blocks, kThreads, kRunSharedBytes}, SquaresOfRuns<T>{call.input<T>(0), size, sums});
        launch({1, kThreads, kRunSharedBytes}, SumOfRuns{sums, blocks, {call.output<std::byte>(0), dtype}});
      },
      static_cast<size_t>(blocks) * sizeof(double));
}

std::unique_ptr<Kernel> sum_of_squares_kernel(const KernelContext& context, Device& device) {
  return visit_floating_type(context.inputs[0].dtype, [&]<class T>(std::type_identity<T>) {
    return sum_of_squares<T>(context, device);
  });
}

const DeviceKernelRegistration squares{"sum_of_squares", kFloatingTypes, sum_of_squares_kernel};

}  // namespace
}  // namespace mtf::cuda
