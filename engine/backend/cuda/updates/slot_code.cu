#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/cuda/device/slot_rounding.h"
#include "engine/backend/visit_type.h"
#include "engine/core/slot_code.h"
#include "engine/ops/slot_code.h"

namespace mtf::cuda {
namespace {

constexpr int kCoded = kPack<float>;

/// The scales of the rows of a tensor with `columns` entries in each.
struct RowScales {
  const float* largest;
  int64_t columns;

  /// Calls visit(i, scale) for the elements of the pack that begins at element `first`.
  template <class Visit>
  MTF_DEVICE void for_each(int64_t first, int count, const Visit& visit) const {
    int64_t row = first / columns, end = (row + 1) * columns;
    SlotScale scale = slot_scale(largest[row]);
    MTF_UNROLL(kCoded)
    for (int i = 0; i < kCoded; ++i) {
      if (i >= count) break;
      if (first + i == end) {
        scale = slot_scale(largest[++row]);
        end += columns;
      }
      visit(i, scale);
    }
  }
};

template <class Code>
struct Encode {
  static constexpr bool kBatched = true;

  SlotRounding<BFloat16> rounding;  ///< its random bits are used
  RowScales scales;
  const float* x;
  Code* codes;
  int64_t size;

  MTF_DEVICE void operator()(const Block& block) const {
    for_each_pack<kCoded>(block, size, [&](int64_t first, int count) {
      const Pack<float, kCoded> from = load<kCoded>(x + first, count);
      const Pack<uint32_t, kCoded> bits = rounding.bits<kCoded>(first, count);
      Pack<Code, kCoded> to{};
      scales.for_each(first, count, [&](int i, const SlotScale& scale) {
        to[i] = encode_slot<Code>(from[i], scale, bits[i]);
      });
      store(codes + first, to, count);
    });
  }
};

template <class Code>
struct Decode {
  static constexpr bool kBatched = true;

  RowScales scales;
  const Code* codes;
  float* values;
  int64_t size;

  MTF_DEVICE void operator()(const Block& block) const {
    for_each_pack<kCoded>(block, size, [&](int64_t first, int count) {
      const Pack<Code, kCoded> from = load<kCoded>(codes + first, count);
      Pack<float, kCoded> to{};
      scales.for_each(first, count,
                      [&](int i, const SlotScale& scale) { to[i] = decode_slot<Code>(from[i], scale); });
      store(values + first, to, count);
    });
  }
};

int64_t columns_of(const LocalTensor& tensor) { return tensor.local[tensor.local.rank() - 1].size; }

template <class Code>
std::unique_ptr<Kernel> encode_kernel_of(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const EncodeSlot&>(context.operation);
  const int64_t size = context.outputs[0].local.size(), columns = columns_of(context.outputs[0]);
  const PreparedRounding<BFloat16> rounding(context, operation.source);
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    launch(over_packs<kCoded>(size), Encode<Code>{rounding.of(call, kCoded),
                                                  {call.input<float>(1), columns},
                                                  call.input<float>(0),
                                                  call.output<Code>(0),
                                                  size});
  });
}

std::unique_ptr<Kernel> encode_kernel(const KernelContext& context, Device& device) {
  return visit_type<int8_t, uint8_t>(context.outputs[0].dtype, [&]<class Code>(std::type_identity<Code>) {
    return encode_kernel_of<Code>(context, device);
  });
}

template <class Code>
std::unique_ptr<Kernel> decode_kernel(const KernelContext& context, Device& device) {
  const int64_t size = context.outputs[0].local.size(), columns = columns_of(context.outputs[0]);
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    launch(over_packs<kCoded>(size),
           Decode<Code>{{call.input<float>(1), columns}, call.input<Code>(0), call.output<float>(0), size});
  });
}

const DeviceKernelRegistration slot_code_kernels[] = {
    {"encode_slot", {DType::kFloat32}, encode_kernel},
    {"decode_slot", {DType::kInt8}, decode_kernel<int8_t>},
    {"decode_slot", {DType::kUInt8}, decode_kernel<uint8_t>},
};

}  // namespace
}  // namespace mtf::cuda
