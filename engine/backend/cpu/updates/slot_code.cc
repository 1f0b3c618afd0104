#include "engine/core/slot_code.h"

#include <algorithm>
#include <type_traits>

#include "engine/backend/cpu/elementwise/noise_pieces.h"
#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/visit_type.h"
#include "engine/base/dispatch.h"
#include "engine/ops/slot_code.h"

namespace mtf {
namespace {

/// The entries of a row on this position.
int64_t columns_of(const LocalTensor& tensor) { return tensor.local[tensor.local.rank() - 1].size; }

template <class Code>
struct EncodedRows {
  const float *x, *largest;
  Code* codes;
  int64_t columns;
};
template <class Code>
MTF_INLINE void encode(const EncodedRows<Code>& rows, const uint32_t* bits, int64_t begin, int64_t end) {
  const auto [x, largest, codes, columns] = rows;
  for (int64_t row = begin / columns, first = begin; first < end; ++row) {
    const int64_t last = std::min(end, (row + 1) * columns);
    const SlotScale scale = slot_scale(largest[row]);
    for (int64_t i = first; i < last; ++i) codes[i] = encode_slot<Code>(x[i], scale, bits[i - begin]);
    first = last;
  }
}

template <class Code>
struct DecodedRows {
  const Code* codes;
  const float* largest;
  float* values;
  int64_t columns;
};
template <class Code>
MTF_INLINE void decode(const DecodedRows<Code>& rows, int64_t begin, int64_t end) {
  const auto [codes, largest, values, columns] = rows;
  for (int64_t row = begin / columns, first = begin; first < end; ++row) {
    const int64_t last = std::min(end, (row + 1) * columns);
    const SlotScale scale = slot_scale(largest[row]);
    for (int64_t i = first; i < last; ++i) values[i] = decode_slot<Code>(codes[i], scale);
    first = last;
  }
}

template <class Code>
std::unique_ptr<Kernel> encode_kernel_of(const KernelContext& context) {
  const RandomSource& source = static_cast<const EncodeSlot&>(context.operation).source;
  const PhiloxKey key = random_key(source.name, context.seed);
  const NoiseIndex index(context.outputs[0], context.outputs[0].global, {}, source.first_element);
  const int64_t columns = columns_of(context.outputs[0]);
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       const EncodedRows<Code> rows{call.input<float>(0), call.input<float>(1),
                                                    call.output<Code>(0), columns};
                       for_each_piece(index, RandomStream::kRounding, key, call, begin, end,
                                      [&](int64_t at, const uint32_t* bits, int64_t n) {
                                        dispatched<encode<Code>>(rows, bits, at, at + n);
                                      });
                     });
}

std::unique_ptr<Kernel> encode_kernel(const KernelContext& context) {
  return visit_type<int8_t, uint8_t>(context.outputs[0].dtype, [&]<class Code>(std::type_identity<Code>) {
    return encode_kernel_of<Code>(context);
  });
}

template <class Code>
std::unique_ptr<Kernel> decode_kernel(const KernelContext& context) {
  const int64_t columns = columns_of(context.outputs[0]);
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [columns](const KernelCall& call, int64_t begin, int64_t end) {
                       const DecodedRows<Code> rows{call.input<Code>(0), call.input<float>(1),
                                                    call.output<float>(0), columns};
                       dispatched<decode<Code>>(rows, begin, end);
                     });
}

const KernelRegistration registrations[] = {
    {"encode_slot", {DType::kFloat32}, encode_kernel},
    {"decode_slot", {DType::kInt8}, decode_kernel<int8_t>},
    {"decode_slot", {DType::kUInt8}, decode_kernel<uint8_t>},
};

}  // namespace
}  // namespace mtf
