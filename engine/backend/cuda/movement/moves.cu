#include <string>

#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/cuda/movement/copy_blocks.h"
#include "engine/backend/cuda/movement/moves.h"
#include "engine/backend/element.h"
#include "engine/backend/visit_type.h"
#include "engine/base/error.h"

namespace mtf::cuda {
namespace {

void copy(const Launcher& launch, const KernelCall& call, BlockCopy copy, int64_t from, int64_t to) {
  copy.from = call.inputs[0].data + from;
  copy.to = call.outputs[0].data + to;
  copy_blocks(launch, {&copy, 1});
}

std::unique_ptr<Kernel> prepare_slice(const Move& move, Device& device) {
  const int axis = move.dimension;
  const int64_t inner = entry_bytes(move.output, axis);
  const int64_t part = move.output.local[axis].size * inner, whole = move.input.local[axis].size * inner;
  const BlockCopy rows{
      .rows = bytes_of(move.output) / part, .length = part, .from_row = whole, .to_row = part};
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    copy(launch, call, rows, (call.outputs[0].begin[axis] - call.inputs[0].begin[axis]) * inner, 0);
  });
}

std::unique_ptr<Kernel> prepare_place(const Move& move, Device& device) {
  const int64_t inner = entry_bytes(move.input, move.dimension);
  const BlockCopy rows{
      .rows = bytes_of(move.input) / inner, .length = inner, .from_row = inner, .to_row = inner * move.count};
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    copy(launch, call, rows, 0, call.iteration * inner);
  });
}

std::unique_ptr<Kernel> prepare_copy(const Move& move, Device& device) {
  const BlockCopy all{.length = bytes_of(move.output)};
  return make_device_kernel(
      device, [=](const Launcher& launch, const KernelCall& call) { copy(launch, call, all, 0, 0); });
}

template <class T>
struct AddTo {
  const T* x;
  T* total;
  int64_t size;

  MTF_DEVICE void operator()(const Block& block) const {
    for_each_pack<kPack<T>>(block, size, [&](int64_t first, int count) {
      Pack<T, kPack<T>> sums = load<kPack<T>>(total + first, count);
      const Pack<T, kPack<T>> terms = load<kPack<T>>(x + first, count);
      for (int i = 0; i < kPack<T>; ++i) sums[i] = narrow<T>(widen(sums[i]) + widen(terms[i]));
      store(total + first, sums, count);
    });
  }
};

template <class T>
std::unique_ptr<Kernel> prepare_accumulate(const Move& move, Device& device) {
  const int64_t size = move.output.local.size();
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    if (call.iteration == 0) {
      copy(launch, call, {.length = size * static_cast<int64_t>(sizeof(T))}, 0, 0);
    } else {
      launch(over_packs<kPack<T>>(size), AddTo<T>{call.input<T>(0), call.output<T>(0), size});
    }
  });
}

}  // namespace

std::unique_ptr<Kernel> prepare_device_move(const Move& move, Device& device) {
  switch (move.kind) {
    case Move::Kind::kSlice:
      return prepare_slice(move, device);
    case Move::Kind::kCopy:
      return prepare_copy(move, device);
    case Move::Kind::kPlace:
      return prepare_place(move, device);
    case Move::Kind::kAccumulate:
      break;
  }
  if (size_of(move.output.dtype) == 1) {
    throw Error(ErrorKind::kConfig,
                std::string("a sum over microbatches of ").append(name_of(move.output.dtype)) + " values",
                "cast them to int32 first");
  }
  return visit_type<float, BFloat16, double, int32_t, int64_t>(
      move.output.dtype, [&]<class T>(std::type_identity<T>) { return prepare_accumulate<T>(move, device); });
}

}  // namespace mtf::cuda
