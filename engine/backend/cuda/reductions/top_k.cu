// The largest entries of rows. Up to kFew are selected one after the other from keys that a warp or a block
// holds in registers; long rows are cut into chunks, whose largest entries then form a shorter row. More
// entries are found by merging sorted chunks. The gradient puts the values back to their places.
#include <algorithm>
#include <utility>

#include "engine/backend/cuda/movement/copy_blocks.h"
#include "engine/backend/cuda/reductions/top_k_keys.h"
#include "engine/backend/rows.h"
#include "engine/base/integer_division.h"
#include "engine/ops/top_k.h"

namespace mtf::cuda {
namespace {

/// The number of keys that a thread holds.
constexpr int kPerThread = 8;
constexpr int64_t kFew = 32;
/// The number of keys that a block sorts.
constexpr int64_t kSorted = 1024;

/// Finds the k largest keys of each chunk of each row, in order.
template <class T>
struct SelectLargest {
  KeyFlow<T> flow;
  Divisor chunks;  ///< chunks of a row
  int k;
  bool whole_block;  ///< a block handles a chunk; otherwise a warp does

  MTF_DEVICE void operator()(const Block& block) const {
    const int64_t unit = whole_block ? block.index() : block.index() * kWarps + block.warp();
    const int threads = whole_block ? kThreads : kWarp, thread = whole_block ? block.thread() : block.lane();
    const Division at = chunks(unit);
    if (at.quotient >= flow.rows.count) return;
    Key<T> keys[kPerThread];
    MTF_UNROLL(kPerThread)
    for (int e = 0; e < kPerThread; ++e)
      keys[e] = flow.read(at.quotient, (at.remainder * kPerThread + e) * threads + thread);
    for (int rank = 0; rank < k; ++rank) {
      Key<T> best = keys[0];
      MTF_UNROLL(kPerThread)
      for (int e = 1; e < kPerThread; ++e) best = larger(best, keys[e]);
      best = largest_of_warp(block, best);
      // Two buffers are used in turn, so that one barrier separates reads from the next writes.
      if (whole_block) best = largest_of_block(block, best, block.shared<Key<T>>() + rank % 2 * kWarps);
      MTF_UNROLL(kPerThread)
      for (int e = 0; e < kPerThread; ++e) {
        if (keys[e] == best) keys[e] = {};
      }
      if (thread == 0) flow.write(at.quotient, unit * k + rank, best);
    }
  }

 private:
  MTF_DEVICE static Key<T> largest_of_block(const Block& block, Key<T> best, Key<T>* shared) {
    if (block.lane() == 0) shared[block.warp()] = best;
    block.sync();
    best = shared[0];
    for (int warp = 1; warp < kWarps; ++warp) best = larger(best, shared[warp]);
    return best;
  }
};

/// Sorts chunks of kSorted keys (bitonic sort, Batcher 1968) and keeps the first `kept` keys of each.
template <class T>
struct SortChunks {
  KeyFlow<T> flow;
  Divisor chunks;
  int64_t kept;

  MTF_DEVICE void operator()(const Block& block) const {
    const Division at = chunks(block.index());
    auto* keys = block.shared<Key<T>>();
    for (int64_t i = block.thread(); i < kSorted; i += kThreads)
      keys[i] = flow.read(at.quotient, at.remainder * kSorted + i);
    block.sync();
    for (int size = 2; size <= kSorted; size *= 2) {
      for (int distance = size / 2; distance > 0; distance /= 2) {
        for (int pair = block.thread(); pair < kSorted / 2; pair += kThreads) {
          const int low = 2 * pair - pair % distance, high = low + distance;
          const bool descending = (low & size) == 0;
          const Key<T> a = keys[low], b = keys[high];
          if (descending ? b > a : a > b) {
            keys[low] = b;
            keys[high] = a;
          }
        }
        block.sync();
      }
    }
    for (int64_t i = block.thread(); i < kept; i += kThreads)
      flow.write(at.quotient, block.index() * kept + i, keys[i]);
  }
};

/// Merges pairs of sorted runs of `length` keys and keeps the first `kept` keys of each.
template <class T>
struct MergeRuns {
  KeyFlow<T> flow;
  int64_t length;
  Divisor kept, pairs;  ///< pairs: of a row

  MTF_DEVICE void operator()(const Block& block) const {
    const int64_t count = flow.rows.count * pairs.value() * kept.value();
    for (int64_t slot = block.first(); slot < count; slot += block.stride()) {
      const Division place = kept(slot);
      const Division pair = pairs(place.quotient);
      flow.write(pair.quotient, slot, merged(pair.quotient, 2 * pair.remainder * length, place.remainder));
    }
  }

 private:
  /// Entry `place` of the merge of the runs at `left` and directly after it. Bisection finds the least number
  /// of keys of the left run that the entries before it can have.
  MTF_DEVICE Key<T> merged(int64_t row, int64_t left, int64_t place) const {
    const int64_t right = left + length;
    int64_t least = place > length ? place - length : 0, most = place < length ? place : length;
    while (least < most) {
      const int64_t middle = (least + most) / 2;
      if (flow.read(row, left + middle) > flow.read(row, right + place - middle - 1)) {
        least = middle + 1;
      } else {
        most = middle;
      }
    }
    const Key<T> a = least < length ? flow.read(row, left + least) : Key<T>{};
    const Key<T> b = place - least < length ? flow.read(row, right + place - least) : Key<T>{};
    return larger(a, b);
  }
};

KeyRows key_rows(const Rows& rows) { return {rows.count, rows.length, Divisor(rows.stride, rows.count)}; }

/// Launches that pass keys on through two halves of the scratch memory.
template <class T>
class TopKLaunches {
 public:
  TopKLaunches(const KeyRows& rows, int64_t k) : rows_(rows), k_(k) {
    const auto runs = std::bit_ceil(static_cast<uint64_t>(ceil_divide(rows.n, kSorted)));
    half_ = rows.count * (k <= kFew ? ceil_divide(rows.n, chunk()) * k
                                    : static_cast<int64_t>(runs) * std::min(k, kSorted));
  }

  size_t scratch_bytes() const { return 2 * static_cast<size_t>(half_) * sizeof(Key<T>); }

  void operator()(const Launcher& launch, const KernelCall& call) const {
    KeyFlow<T> flow{call.input<T>(0),       rows_, nullptr, rows_.n, nullptr, call.output<T>(0),
                    call.output<int32_t>(1)};
    auto* scratch = reinterpret_cast<Key<T>*>(call.scratch);
    if (k_ <= kFew) {
      select(launch, flow, scratch);
    } else {
      sort(launch, flow, scratch);
    }
  }

 private:
  bool whole_block(int64_t length) const { return length > kWarp * kPerThread; }
  int64_t chunk() const { return kPerThread * (whole_block(rows_.n) ? kThreads : kWarp); }

  void select(const Launcher& launch, KeyFlow<T> flow, Key<T>* scratch) const {
    Key<T>* other = scratch + half_;
    while (true) {
      const bool block = whole_block(flow.length);
      const int64_t chunks = ceil_divide(flow.length, kPerThread * (block ? kThreads : kWarp)),
                    units = rows_.count * chunks;
      const int64_t blocks = block ? units : ceil_divide(units, kWarps);
      flow.to = chunks == 1 ? nullptr : scratch;
      launch(LaunchShape{blocks, kThreads, 2 * kWarps * static_cast<int64_t>(sizeof(Key<T>))},
             SelectLargest<T>{flow, Divisor(chunks, blocks * kWarps), static_cast<int>(k_), block});
      if (chunks == 1) return;
      flow.from = scratch;
      flow.length = chunks * k_;
      std::swap(scratch, other);
    }
  }

  void sort(const Launcher& launch, KeyFlow<T> flow, Key<T>* scratch) const {
    Key<T>* other = scratch + half_;
    int64_t runs = ceil_divide(rows_.n, kSorted), length = std::min(k_, kSorted);
    flow.to = runs == 1 ? nullptr : scratch;
    launch(LaunchShape{rows_.count * runs, kThreads, kSorted * static_cast<int64_t>(sizeof(Key<T>))},
           SortChunks<T>{flow, Divisor(runs, rows_.count * runs), length});
    while (runs > 1) {
      const int64_t pairs = ceil_divide(runs, 2), kept = std::min(k_, 2 * length),
                    count = rows_.count * pairs * kept;
      flow.from = scratch;
      flow.length = runs * length;
      flow.to = pairs == 1 ? nullptr : other;
      launch(over(count, 1), MergeRuns<T>{flow, length, Divisor(kept, count), Divisor(pairs, count)});
      runs = pairs;
      length = kept;
      std::swap(scratch, other);
    }
  }

  KeyRows rows_;
  int64_t k_, half_;
};

template <class T>
std::unique_ptr<Kernel> top_k_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const TopK&>(context.operation);
  const TopKLaunches<T> launches(key_rows(rows_along(context.inputs[0], operation.dimension)),
                                 context.outputs[0].local.dimension(operation.k_dimension).size);
  return make_device_kernel(device, launches, launches.scratch_bytes());
}

/// Writes values where they came from, if that is in this position's slice.
template <class T>
struct PutBack {
  const T* values;
  const int32_t* indices;
  T* dx;
  KeyRows rows;
  int64_t first;
  Divisor k;

  MTF_DEVICE void operator()(const Block& block) const {
    for (int64_t i = block.first(); i < rows.count * k.value(); i += block.stride()) {
      const int64_t index = indices[i] - first;
      if (index >= 0 && index < rows.n)
        dx[rows.offset(k(i).quotient) + index * rows.inner.value()] = values[i];
    }
  }
};

template <class T>
std::unique_ptr<Kernel> top_k_gradient_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const TopKGradient&>(context.operation);
  const LocalTensor& dx = context.outputs[0];
  const Rows of_dx = rows_along(dx, operation.dimension);
  const int axis = of_dx.axis;
  const int64_t bytes = bytes_of(dx), count = context.inputs[0].local.size();
  const KeyRows rows = key_rows(of_dx);
  const Divisor k(context.inputs[0].local.dimension(operation.k_dimension).size, count);
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    const BlockCopy zeros{.to = call.output<std::byte>(0), .length = bytes};
    copy_blocks(launch, {&zeros, 1});
    launch(over(count, 1), PutBack<T>{call.input<T>(0), call.input<int32_t>(1), call.output<T>(0), rows,
                                      call.outputs[0].begin[axis], k});
  });
}

const DeviceKernelRegistration top_k_f32("top_k", {DType::kFloat32}, top_k_kernel<float>);
const DeviceKernelRegistration top_k_bf16("top_k", {DType::kBFloat16}, top_k_kernel<BFloat16>);
const DeviceKernelRegistration top_k_f64("top_k", {DType::kFloat64}, top_k_kernel<double>);
const DeviceKernelRegistration top_k_i32("top_k", {DType::kInt32}, top_k_kernel<int32_t>);
const DeviceKernelRegistration top_k_gradient_f32("top_k_gradient", {DType::kFloat32},
                                                  top_k_gradient_kernel<float>);
const DeviceKernelRegistration top_k_gradient_bf16("top_k_gradient", {DType::kBFloat16},
                                                   top_k_gradient_kernel<BFloat16>);
const DeviceKernelRegistration top_k_gradient_f64("top_k_gradient", {DType::kFloat64},
                                                  top_k_gradient_kernel<double>);

}  // namespace
}  // namespace mtf::cuda
