// Gradient of gather: each row of the table receives the sum of dy over the places whose id selects it, added to
// another gradient of the table if there is one. Such a row is called an entry here.
//
// The places are sorted by entry (stably), so that those of an entry are adjacent, in the order of the ids. A
// thread adds those of one entry and some columns, in that order. Entries with many places would leave most
// threads idle, so aligned chunks of sorted places that belong to one entry are added first, by other
// threads.
#include <algorithm>

#include "engine/backend/broadcast_axes.h"
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/words.h"
#include "engine/backend/cuda/movement/key_sort.h"
#include "engine/backend/element.h"
#include "engine/ops/fused_gather_gradient.h"

namespace mtf::cuda {
namespace {

/// The number of sorted places that are added at once; entries with fewer places are added without chunks.
constexpr int64_t kChunk = 512;

/// Computes the entry of each place as its number among the entries of all batches, or `none` if the id
/// selects nothing here.
struct EntriesOfPlaces {
  const int32_t* ids;
  uint32_t* entries;
  Strided<1> walk;  ///< over the places
  Divisor of_batch;
  int64_t first, rows;  ///< range of the table's slice
  uint32_t none;

  MTF_DEVICE void operator()(const Block& block) const {
    for (int64_t i = block.first(); i < walk.size(); i += block.stride()) {
      const int64_t row = ids[walk.at(i)[0]] - first;
      entries[i] = row >= 0 && row < rows ? static_cast<uint32_t>(of_batch(i).quotient * rows + row) : none;
    }
  }
};

/// begins[e] = index of the first place of entry e among the sorted places.
struct FindBegins {
  const uint32_t* entries;
  uint32_t* begins;
  int64_t places, size;

  MTF_DEVICE void operator()(const Block& block) const {
    for (int64_t entry = block.first(); entry < size; entry += block.stride()) {
      int64_t low = 0, high = places;
      while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (entries[middle] < entry) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      begins[entry] = static_cast<uint32_t>(low);
    }
  }
};

/// The rows of dy in the order of the sorted places.
template <class T, int N>
struct SortedRows {
  const T* dy;
  const uint32_t* places;
  Strided<1> walk;  ///< from places to offsets in dy

  /// Adds the rows begin .. end - 1 at `column`, one after the other. Several are read at once.
  MTF_DEVICE void add(int64_t begin, int64_t end, int64_t column, Pack<Computed<T>, N>& sums) const {
    constexpr int kAtOnce = 8;
    for (int64_t i = begin; i < end; i += kAtOnce) {
      Pack<T, N> rows[kAtOnce];
      MTF_UNROLL(kAtOnce)
      for (int k = 0; k < kAtOnce; ++k) {
        if (i + k < end) rows[k] = load<N>(dy + walk.at(places[i + k])[0] + column);
      }
      MTF_UNROLL(kAtOnce)
      for (int k = 0; k < kAtOnce; ++k) {
        if (i + k < end) {
          MTF_UNROLL(N)
          for (int n = 0; n < N; ++n) sums[n] += widen(rows[k][n]);
        }
      }
    }
  }
};

/// Computes chunks[chunk][column], the sums over the chunks that belong to one entry.
template <class T, int N>
struct AddChunks {
  SortedRows<T, N> rows;
  const uint32_t* entries;  ///< entries of the sorted places
  uint32_t none;
  int64_t count;       ///< number of chunks
  Strided<2> columns;  ///< packs: offsets in the table and in dy
  Divisor packs;
  Computed<T>* chunks;

  MTF_DEVICE void operator()(const Block& block) const {
    for (int64_t i = block.first(); i < count * packs.value(); i += block.stride()) {
      const Division at = packs(i);
      const int64_t begin = at.quotient * kChunk, end = begin + kChunk;
      if (entries[begin] != entries[end - 1] || entries[begin] == none) continue;
      Pack<Computed<T>, N> sums{};
      rows.add(begin, end, columns.at(at.remainder)[1], sums);
      store(chunks + i * N, sums);
    }
  }
};

template <class T, class Out, int N>
struct AddRows {
  SortedRows<T, N> rows;
  const uint32_t* begins;
  Strided<1> entries;  ///< offsets in the table
  Strided<2> columns;
  Divisor packs;
  const Computed<T>* chunks;
  const Out* addend;  ///< what the sums are added to; it may be the table itself, or null
  Out* table;

  MTF_DEVICE void operator()(const Block& block) const {
    for (int64_t i = block.first(); i < entries.size() * packs.value(); i += block.stride()) {
      const Division at = packs(i);
      const Offsets<2> column = columns.at(at.remainder);
      int64_t begin = begins[at.quotient];
      const int64_t end = begins[at.quotient + 1];
      if (begin == end && addend == table) continue;
      const int64_t first = (begin + kChunk - 1) / kChunk, last = end / kChunk;  // range of chunks
      int64_t until = first < last ? first * kChunk : end;
      Pack<Computed<T>, N> sums{};
      for (;;) {
        rows.add(begin, until, column[1], sums);
        if (until == end) break;
        for (int64_t chunk = first; chunk < last; ++chunk) {
          const Pack<Computed<T>, N> sum = load<N>(chunks + (chunk * packs.value() + at.remainder) * N);
          for (int n = 0; n < N; ++n) sums[n] += sum[n];
        }
        begin = last * kChunk;
        until = end;
      }
      const int64_t offset = entries.at(at.quotient)[0] + column[0];
      if (addend != nullptr) {
        const Pack<Out, N> added = load<N>(addend + offset);
        for (int n = 0; n < N; ++n) sums[n] += widen(added[n]);
      }
      Pack<Out, N> result;
      for (int n = 0; n < N; ++n) result[n] = narrow<Out>(sums[n]);
      store(table + offset, result);
    }
  }
};

/// The dimensions that table, dy and ids share.
struct GatherGradientPlan {
  StridedAxes<1> ids, dy;  ///< dimensions of ids, those of the table first: strides of ids, of dy
  StridedAxes<1> entries;  ///< shared dimensions and the one that is looked up: strides of the table
  StridedAxes<2> columns;  ///< dimensions of the table only: strides of table and dy
  int64_t of_batch = 1;    ///< places of a batch, that is of one index of the shared dimensions
  int64_t rows = 0;
  int axis = 0;  ///< axis of the table that the ids index

  GatherGradientPlan(const KernelContext& context, const std::string& dimension) {
    const LocalTensor &of_dy = context.inputs[0], &of_ids = context.inputs[1], &table = context.outputs[0];
    const auto add_place = [&](const Dimension& d) {
      ids.push_back({d.size, {stride_of(of_ids, d.name)}});
      dy.push_back({d.size, {stride_of(of_dy, d.name)}});
    };
    for (const Dimension& d : table.local) {
      const int64_t stride = stride_of(table, d.name);
      if (d.name == dimension) continue;
      if (of_ids.local.contains(d.name)) {
        add_place(d);
        entries.push_back({d.size, {stride}});
      } else {
        columns.push_back({d.size, {stride, stride_of(of_dy, d.name)}});
      }
    }
    for (const Dimension& d : of_ids.local) {
      if (table.local.contains(d.name)) continue;
      add_place(d);
      of_batch *= d.size;
    }
    axis = *table.local.find(dimension);
    rows = table.local[axis].size;
    entries.push_back({rows, {stride_of(table, dimension)}});
    columns = joined(columns);
  }

  int64_t places() const { return size_of(ids); }

  /// True if `n` columns can be read and written at once.
  bool in_packs(int64_t n) const {
    const auto multiples = [n](const StridedAxes<1>& axes) {
      return std::all_of(axes.begin(), axes.end(),
                         [n](const auto& axis) { return axis.strides[0] % n == 0; });
    };
    const Strided<2> walk(columns);
    return walk.in_packs(0, n) && walk.in_packs(1, n) && multiples(dy) && multiples(entries);
  }
  /// The columns in packs of `n`.
  Strided<2> packs(int64_t n) const {
    StridedAxes<2> axes = columns;
    if (n > 1) axes.back() = {axes.back().size / n, {n, n}};
    return Strided<2>(axes);
  }
};

/// Launches for elements of type T and a table of type Out, which is T or float32, with N columns at once.
template <class T, class Out, int N>
class GatherGradientLaunches {
 public:
  explicit GatherGradientLaunches(const GatherGradientPlan& plan)
      : ids_(plan.ids),
        dy_(plan.dy),
        entries_(plan.entries),
        columns_(plan.packs(N)),
        of_batch_(plan.of_batch, plan.places()),
        packs_(columns_.size(), std::max(entries_.size(), chunks()) * columns_.size()),
        rows_(plan.rows),
        axis_(plan.axis),
        sort_(plan.places(), entries_.size()) {}

  size_t scratch_bytes() const {
    return static_cast<size_t>(chunks_at() +
                               chunks() * columns_.size() * N * static_cast<int64_t>(sizeof(Computed<T>)));
  }

  void operator()(const Launcher& launch, const KernelCall& call) const {
    auto* begins = reinterpret_cast<uint32_t*>(call.scratch + begins_at());
    auto* sums = reinterpret_cast<Computed<T>*>(call.scratch + chunks_at());
    const int64_t places = ids_.size();
    const auto none = static_cast<uint32_t>(entries_.size());
    launch(over(places, 1), EntriesOfPlaces{call.input<int32_t>(1), sort_.keys(call.scratch), ids_, of_batch_,
                                            call.outputs[0].begin[axis_], rows_, none});
    const SortedKeys sorted = sort_(launch, call.scratch);
    launch(over(entries_.size() + 1, 1), FindBegins{sorted.keys, begins, places, entries_.size() + 1});
    const SortedRows<T, N> rows{call.input<T>(0), sorted.places, dy_};
    launch(over(chunks() * columns_.size(), 1),
           AddChunks<T, N>{rows, sorted.keys, none, chunks(), columns_, packs_, sums});
    launch(over(entries_.size() * columns_.size(), 1),
           AddRows<T, Out, N>{rows, begins, entries_, columns_, packs_, sums,
                              call.inputs.size() > 2 ? call.input<Out>(2) : nullptr, call.output<Out>(0)});
  }

 private:
  static int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }
  int64_t chunks() const { return ids_.size() / kChunk; }
  int64_t begins_at() const { return aligned(static_cast<int64_t>(sort_.scratch_bytes())); }
  int64_t chunks_at() const {
    return begins_at() + aligned((entries_.size() + 1) * static_cast<int64_t>(sizeof(uint32_t)));
  }

  Strided<1> ids_, dy_, entries_;
  Strided<2> columns_;
  Divisor of_batch_, packs_;
  int64_t rows_;
  int axis_;
  KeySort sort_;
};

template <class T, class Out, int N>
std::unique_ptr<Kernel> in_packs(const GatherGradientPlan& plan, Device& device) {
  const GatherGradientLaunches<T, Out, N> launches(plan);
  return make_device_kernel(device, launches, launches.scratch_bytes());
}

template <class T, class Out>
std::unique_ptr<Kernel> kernel_into(const GatherGradientPlan& plan, Device& device) {
  if constexpr (std::is_same_v<Computed<T>, float>) {  // the types used in training
    if (plan.in_packs(kPack<T>)) return in_packs<T, Out, kPack<T>>(plan, device);
  }
  return in_packs<T, Out, 1>(plan, device);
}

template <class T, class Gradient>
std::unique_ptr<Kernel> kernel_of(const KernelContext& context, Device& device) {
  const GatherGradientPlan plan(context, static_cast<const Gradient&>(context.operation).dimension);
  if (context.outputs[0].dtype == DTypeOf<Computed<T>>::value)
    return kernel_into<T, Computed<T>>(plan, device);
  return kernel_into<T, T>(plan, device);
}

template <class T>
struct GatherGradientKernels {
  static constexpr DType dtype = DTypeOf<T>::value;
  DeviceKernelRegistration plain{"gather_gradient", {dtype}, kernel_of<T, GatherGradient>};
  DeviceKernelRegistration fused{"fused_gather_gradient", {dtype}, kernel_of<T, FusedGatherGradient>};
};
const GatherGradientKernels<float> gather_gradient_f32;
const GatherGradientKernels<BFloat16> gather_gradient_bf16;
const GatherGradientKernels<double> gather_gradient_f64;
const GatherGradientKernels<int32_t> gather_gradient_i32;

}  // namespace
}  // namespace mtf::cuda
