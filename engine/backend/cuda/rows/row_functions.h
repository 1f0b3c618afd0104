// Functions of rows (engine/backend/rows.h): a row is reduced to a few numbers, or mapped element by element,
// or first reduced and then mapped. A function object defines what is done with elements; the kernels here
// choose the threads and move the data, with a strategy for each kind of rows. Outputs may overwrite inputs.
//
//   struct Softmax : RowOperands<float, 1> {       // x; y
//     static constexpr bool kReduces = true, kMaps = true;
//     using State = LogSum<float>;                 // state of some of a row's elements
//     struct Row { float top, scale; };            // what is known of a row
//
//     Row begin(const RowPlace&) const;
//     State identity(const Row&) const;
//     void take(const Row&, State& state, const E& elements) const;
//     static State combine(const State&, const State&);
//     void finish(Row&, int64_t row, const State& whole, bool writes) const;      // one thread writes
//     void apply(const Row&, const E& elements, float (&y)[N]) const;
//   };
//   const DeviceKernelRegistration softmax(
//       "softmax", {DType::kFloat32}, [](const KernelContext& context, Device& d) {
//         return row_kernel<Softmax>(rows_along(context.inputs[0], "vocab"), d,
//                                    [](const KernelCall& call) { ... });
//       });
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/thread_groups.h"
#include "engine/backend/element.h"

namespace mtf::cuda {

/// `Inputs` tensors with the same rows, and the output.
template <class T, int Inputs>
struct RowOperands {
  using Element = T;
  static constexpr int kInputs = Inputs;

  const T* in[Inputs] = {};
  T* out = nullptr;
};

/// The number and the first offset of a row, and the distance between its elements.
struct RowPlace {
  int64_t row, offset, stride;
};

/// How a thread's elements are stored: in any way; as a pack of a row; or as a pack of a row that begins with
/// a pack, so that vectors of parameters are accessed in packs as well.
enum class Access { kScattered, kPacked, kAligned };

/// Elements of a row: element n has index first + n * step.
template <class F, int N, Access Lie>
struct Elements {
  static constexpr int kCount = N;
  static constexpr Access kAccess = Lie;

  int first, step;
  Computed<typename F::Element> in[F::kInputs][N];
};

/// Loads the elements of a parameter vector that belong to these elements of a row.
template <class E, class T>
MTF_DEVICE void load_parameters(const E& elements, const T* parameters, Computed<T> (&values)[E::kCount]) {
  if constexpr (E::kAccess == Access::kAligned) {
    const Pack<T, E::kCount> pack = load<E::kCount>(parameters + elements.first);
    for (int n = 0; n < E::kCount; ++n) values[n] = widen(pack[n]);
  } else {
    for (int n = 0; n < E::kCount; ++n) values[n] = widen(parameters[elements.first + n * elements.step]);
  }
}

/// Loads these elements of another row that begins at `row` and lies in memory as the operands' rows do.
template <class E, class T>
MTF_DEVICE void load_row_elements(const E& elements, const T* row, int64_t stride,
                                  Computed<T> (&values)[E::kCount]) {
  if constexpr (E::kAccess == Access::kScattered) {
    for (int n = 0; n < E::kCount; ++n) values[n] = widen(row[(elements.first + n * elements.step) * stride]);
  } else {
    const Pack<T, E::kCount> pack = load<E::kCount>(row + elements.first);
    for (int n = 0; n < E::kCount; ++n) values[n] = widen(pack[n]);
  }
}

namespace rows_detail {

/// The number of elements that a thread handles at a time if they are not packed (float64 is for tests of
/// models: one compiles faster), and the number of such groups between two calls of flush().
template <class T>
inline constexpr int kScattered = std::is_same_v<T, double> ? 1 : 4;
inline constexpr int kGroups = 32;

/// The largest number of threads that keep a row, and the number of packs of each input that a thread keeps.
inline constexpr int kKeepingThreads = 1024;
template <class F>
inline constexpr int kKeptPacks = 4 / F::kInputs;

template <int N, class F>
MTF_DEVICE auto load_scattered(const F& f, const RowPlace& place, int first, int step) {
  Elements<F, N, Access::kScattered> elements{first, step, {}};
  for (int k = 0; k < F::kInputs; ++k) {
    for (int n = 0; n < N; ++n)
      elements.in[k][n] = widen(f.in[k][place.offset + (first + n * step) * place.stride]);
  }
  return elements;
}

template <Access Lie, class F>
MTF_DEVICE auto load_packed(const F& f, const RowPlace& place, int first) {
  constexpr int N = kPack<typename F::Element>;
  Elements<F, N, Lie> elements{first, 1, {}};
  for (int k = 0; k < F::kInputs; ++k) {
    const auto pack = load<N>(f.in[k] + place.offset + first);
    for (int n = 0; n < N; ++n) elements.in[k][n] = widen(pack[n]);
  }
  return elements;
}

/// Calls visit(elements) for the group's elements, and flush() now and then and at the end.
template <class F, class Visit, class Flush>
MTF_DEVICE void visit_scattered(const F& f, const RowPlace& place, const ThreadGroup& group,
                                const Visit& visit, const Flush& flush) {
  constexpr int N = kScattered<typename F::Element>;
  const int size = group.size(), count = group.count();
  int i = group.rank();
  while (i + (N - 1) * size < count) {
    for (int group = 0; group < kGroups && i + (N - 1) * size < count; ++group, i += N * size) {
      visit(load_scattered<N>(f, place, i, size));
    }
    flush();
  }
  if constexpr (N > 1) {
    for (; i < count; i += size) visit(load_scattered<1>(f, place, i, size));
    flush();
  }
}

/// The same in packs for contiguous rows, whatever their alignment.
template <class F, class Visit, class Flush>
MTF_DEVICE void visit_packed(const F& f, const RowPlace& place, const ThreadGroup& group, const Visit& visit,
                             const Flush& flush) {
  constexpr int N = kPack<typename F::Element>;
  const int begin = static_cast<int>(group.begin()), count = group.count();
  visit_packs<N>(
      count, elements_before_pack<N>(place.offset + begin, count), group.rank(), group.size(),
      [&](int i) { visit(load_scattered<1>(f, place, begin + i, 1)); },
      [&](int i) { return load_packed<Access::kPacked>(f, place, begin + i); }, visit, flush);
}

template <class F, class E>
MTF_DEVICE void map(const F& f, const typename F::Row& row, const RowPlace& place, const E& elements) {
  using T = typename F::Element;
  Computed<T> results[E::kCount];
  f.apply(row, elements, results);
  if constexpr (E::kAccess == Access::kScattered) {
    for (int n = 0; n < E::kCount; ++n)
      f.out[place.offset + (elements.first + n * elements.step) * place.stride] = narrow<T>(results[n]);
  } else {
    Pack<T, E::kCount> pack;
    for (int n = 0; n < E::kCount; ++n) pack[n] = narrow<T>(results[n]);
    store(f.out + place.offset + elements.first, pack);
  }
}

MTF_DEVICE RowPlace place_of(const ThreadGroup& group) {
  return {group.row(), group.offset(), group.stride()};
}

/// The combined state of a thread's elements.
template <class F, class VisitAll>
MTF_DEVICE typename F::State fold(const F& f, const typename F::Row& row, const VisitAll& visit_all) {
  const typename F::State identity = f.identity(row);
  typename F::State whole = identity, some = identity;
  visit_all([&](const auto& elements) { f.take(row, some, elements); },
            [&] {
              whole = F::combine(whole, some);
              some = identity;
            });
  return whole;
}

}  // namespace rows_detail

/// Handles contiguous rows of whole packs that fit into the registers of a group.
template <class F>
struct KeptRows {
  static constexpr int kMaxThreads = rows_detail::kKeepingThreads;
  F f;
  ThreadGroups groups;

  MTF_DEVICE void operator()(const Block& block) const {
    using namespace rows_detail;
    constexpr int N = kPack<typename F::Element>, kPacks = kKeptPacks<F>;
    const ThreadGroup group(block, groups);
    const RowPlace place = place_of(group);
    typename F::Row row = f.begin(place);
    Elements<F, N, Access::kAligned> kept[kPacks];
    const auto for_each = [&](const auto& visit) {
      MTF_UNROLL(kPacks)
      for (int p = 0; p < kPacks; ++p) {
        const int first = (p * group.size() + group.rank()) * N;
        if (first < group.count()) visit(kept[p], first);
      }
    };
    for_each([&](auto& elements, int first) { elements = load_packed<Access::kAligned>(f, place, first); });
    typename F::State state = f.identity(row);
    for_each([&](const auto& elements, int) { f.take(row, state, elements); });
    state = group.reduce_adjacent(block, state, f.identity(row), F::combine);
    f.finish(row, group.row(), state, group.leads());
    for_each([&](const auto& elements, int) { map(f, row, place, elements); });
  }
};

/// Handles any rows, one element at a time.
template <class F>
struct ScatteredRows {
  static constexpr int kMaxThreads = 512;
  F f;
  ThreadGroups groups;

  MTF_DEVICE void operator()(const Block& block) const {
    using namespace rows_detail;
    const ThreadGroup group(block, groups);
    const RowPlace place = place_of(group);
    typename F::Row row = f.begin(place);
    if constexpr (F::kReduces) {
      const auto visit_all = [&](const auto& visit, const auto& flush) {
        visit_scattered(f, place, group, visit, flush);
      };
      const typename F::State state = fold(f, row, visit_all);
      f.finish(row, group.row(), group.reduce(block, state, f.identity(row), F::combine), group.leads());
    }
    if constexpr (F::kMaps) {
      visit_scattered(
          f, place, group, [&](const auto& elements) { map(f, row, place, elements); }, [] {});
    }
  }
};

/// Reduces contiguous rows or parts of them.
template <class F>
struct PackedReduction {
  static constexpr int kMaxThreads = 512;
  F f;
  ThreadGroups groups;
  typename F::State* states;  ///< [row, part], to be finished by another kernel; null if not needed

  MTF_DEVICE void operator()(const Block& block) const {
    using namespace rows_detail;
    const ThreadGroup group(block, groups);
    const RowPlace place = place_of(group);
    typename F::Row row = f.begin(place);
    const auto visit_all = [&](const auto& visit, const auto& flush) {
      visit_packed(f, place, group, visit, flush);
    };
    typename F::State state = fold(f, row, visit_all);
    state = group.reduce_adjacent(block, state, f.identity(row), F::combine);
    if (states == nullptr) {
      f.finish(row, group.row(), state, group.leads());
    } else if (group.leads()) {
      states[group.row() * groups.parts + group.part()] = state;
    }
  }
};

/// Finishes a reduction: the group of a row combines the states of its parts.
template <class F>
MTF_DEVICE void finish_parts(const Block& block, const F& f, const ThreadGroup& group, typename F::Row& row,
                             const typename F::State* states, int parts, bool writes) {
  typename F::State state = f.identity(row);
  for (int part = group.rank(); part < parts; part += group.size()) {
    state = F::combine(state, states[group.row() * parts + part]);
  }
  state = group.reduce_adjacent(block, state, f.identity(row), F::combine);
  f.finish(row, group.row(), state, writes);
}

template <class F>
struct FinishedRows {
  F f;
  ThreadGroups groups;
  const typename F::State* states;
  int parts;

  MTF_DEVICE void operator()(const Block& block) const {
    const ThreadGroup group(block, groups);
    typename F::Row row = f.begin(rows_detail::place_of(group));
    finish_parts(block, f, group, row, states, parts, group.leads());
  }
};

/// Maps contiguous rows; if the function reduces, they have been reduced to states before.
template <class F>
struct PackedMap {
  static constexpr int kMaxThreads = 512;
  F f;
  ThreadGroups groups;
  const std::byte* states;

  MTF_DEVICE void operator()(const Block& block) const {
    using namespace rows_detail;
    const ThreadGroup group(block, groups);
    const RowPlace place = place_of(group);
    typename F::Row row = f.begin(place);
    if constexpr (F::kReduces) {
      finish_parts(block, f, group, row, reinterpret_cast<const typename F::State*>(states), groups.parts,
                   group.leads() && group.part() == 0);
    }
    visit_packed(
        f, place, group, [&](const auto& elements) { map(f, row, place, elements); }, [] {});
  }
};

/// The strategy for the rows of a function; a pure function of shapes.
struct RowPlan {
  enum class Kind { kKept, kScattered, kPacked };
  Kind kind = Kind::kScattered;
  ThreadGroups groups;
  size_t scratch = 0;
};

template <class F>
RowPlan plan_rows(const Rows& rows) {
  using namespace rows_detail;
  using Kind = RowPlan::Kind;
  using T = typename F::Element;
  constexpr int N = kPack<T>;
  constexpr int64_t kShort = 4096;
  MTF_CHECK(rows.length < int64_t{1} << 30, "a row of {} elements", rows.length);
  if (rows.stride != 1) return {Kind::kScattered, interleaved_groups(rows.count, rows.length, rows.stride)};
  const RowPlan scattered{Kind::kScattered, contiguous_groups(rows.count, rows.length, kScattered<T>)};
  if (std::is_same_v<T, double>) return scattered;
  if (F::kReduces && F::kMaps) {
    if (rows.length % N == 0 && rows.length <= N * kKeptPacks<F> * kKeepingThreads)
      return {Kind::kKept, contiguous_groups(rows.count, rows.length, N, kKeptPacks<F>, kKeepingThreads)};
    if (rows.length <= kShort) return scattered;
  }
  const ThreadGroups groups = divided(contiguous_groups(rows.count, rows.length, N), N);
  size_t scratch = 0;
  if constexpr (F::kReduces) {
    if (F::kMaps || groups.parts > 1)
      scratch = static_cast<size_t>(rows.count * groups.parts) * sizeof(typename F::State);
  }
  return {Kind::kPacked, groups, scratch};
}

template <class F>
void launch_rows(const Launcher& launch, const RowPlan& plan, const F& f, std::byte* scratch) {
  const ThreadGroups& groups = plan.groups;
  size_t state_bytes = 0;
  if constexpr (F::kReduces) state_bytes = sizeof(typename F::State);
  const LaunchShape shape = groups.shape(state_bytes);
  if (plan.kind == RowPlan::Kind::kScattered) return launch(shape, ScatteredRows<F>{f, groups});
  if constexpr (!std::is_same_v<typename F::Element, double>) {
    if constexpr (F::kReduces && F::kMaps) {
      if (plan.kind == RowPlan::Kind::kKept) return launch(shape, KeptRows<F>{f, groups});
    }
    if constexpr (F::kReduces) {
      auto* states = reinterpret_cast<typename F::State*>(plan.scratch == 0 ? nullptr : scratch);
      launch(shape, PackedReduction<F>{f, groups, states});
      if constexpr (!F::kMaps) {
        if (groups.parts == 1) return;
        ThreadGroups finishing = contiguous_groups(groups.rows, groups.parts, 1);
        finishing.length = groups.length;  // determines where rows begin
        launch(finishing.shape(state_bytes), FinishedRows<F>{f, finishing, states, groups.parts});
      }
    }
    if constexpr (F::kMaps) launch(shape, PackedMap<F>{f, groups, scratch});
  }
}

/// A kernel that computes function F of rows; bind(call) returns the function object of a call.
template <class F, class Bind>
std::unique_ptr<Kernel> row_kernel(const Rows& rows, Device& device, const Bind& bind) {
  const RowPlan plan = plan_rows<F>(rows);
  return make_device_kernel(
      device,
      [plan, bind](const Launcher& launch, const KernelCall& call) {
        launch_rows<F>(launch, plan, bind(call), call.scratch);
      },
      plan.scratch);
}

}  // namespace mtf::cuda
