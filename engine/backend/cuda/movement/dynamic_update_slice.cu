// dynamic_update_slice: writes one entry along a dimension, in place or while copying the rest.
#include "engine/backend/broadcast_axes.h"
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/words.h"
#include "engine/ops/dynamic_update_slice.h"

namespace mtf::cuda {
namespace {

/// Copies everything into other memory, with the entry in its place.
template <class Word>
struct CopyAndPut {
  const Word *x, *entry;
  const int32_t* index;
  Word* y;
  Strided<3> walk;  ///< over x and y: words of the entry, index; index along the dimension

  MTF_DEVICE void operator()(const Block& block) const {
    move_entries(
        block, walk.size(),
        [&](int64_t i) {
          const Offsets<3> at = walk.at(i);
          return index[at[1]] == at[2] ? entry[at[0]] : x[i];
        },
        [&](int64_t i, Word word) { y[i] = word; });
  }
};

/// Writes only the entry.
template <class Word>
struct UpdateSliceInPlace {
  const Word* entry;
  const int32_t* index;
  Word* y;
  Strided<3> walk;  ///< over the words of entries: words of y and of the entry, index
  int64_t n, stride;

  MTF_DEVICE void operator()(const Block& block) const {
    for (int64_t i = block.first(); i < walk.size(); i += block.stride()) {
      const Offsets<3> at = walk.at(i);
      const int64_t place = index[at[2]];
      if (place >= 0 && place < n) y[at[0] + place * stride] = entry[at[1]];
    }
  }
};

std::unique_ptr<Kernel> dynamic_update_slice_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const DynamicUpdateSlice&>(context.operation);
  const LocalTensor &x = context.inputs[0], &entry = context.inputs[1], &index = context.inputs[2];
  const int64_t bytes = static_cast<int64_t>(size_of(x.dtype)), stride = stride_of(x, operation.dimension);
  StridedAxes<3> all, entries;
  for (const Dimension& d : x.local) {
    const bool searched = d.name == operation.dimension;
    all.push_back({d.size, {stride_of(entry, d.name), stride_of(index, d.name), searched ? 1 : 0}});
    if (!searched)
      entries.push_back({d.size, {stride_of(x, d.name), stride_of(entry, d.name), stride_of(index, d.name)}});
  }
  const int64_t n = x.local.dimension(operation.dimension).size;
  const WordWalk<3> copied(all, 0b001, bytes, {stride}), put(entries, 0b011, bytes, {stride});
  const Strided<3> copied_walk(copied.axes), put_walk(put.axes);
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    const bool in_place = call.input<std::byte>(0) == call.output<std::byte>(0);
    with_word(in_place ? put.word : copied.word, [&]<class Word>(Word) {
      const Word* from = call.input<Word>(1);
      const int32_t* at = call.input<int32_t>(2);
      Word* y = call.output<Word>(0);
      if (in_place) {
        launch(over(put_walk.size(), 1),
               UpdateSliceInPlace<Word>{from, at, y, put_walk, n, stride / put.elements});
      } else {
        launch(over(copied_walk.size()), CopyAndPut<Word>{call.input<Word>(0), from, at, y, copied_walk});
      }
    });
  });
}

const DeviceKernelRegistration dynamic_update_slice_kernels("dynamic_update_slice", kAllTypes,
                                                            dynamic_update_slice_kernel);

}  // namespace
}  // namespace mtf::cuda
