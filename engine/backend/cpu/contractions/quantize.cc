// Rounding to codes of 8 bits (engine/ops/int8_product.h). This file is compiled without fused multiply-adds, which would
// round halves otherwise: all instruction sets give the same codes.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"
#include "engine/backend/strided.h"
#include "engine/backend/visit_type.h"
#include "engine/base/dispatch.h"
#include "engine/ops/int8_product.h"

namespace mtf {
namespace {

constexpr float kLargestCode = 127;
/// Rows whose largest magnitude is smaller become zeros: their scale has no reciprocal.
constexpr float kLeastMagnitude = 1e-35f;

/// The scale of a row or column, and the factor from values to codes: 0 where all codes are 0.
struct Scale {
  float to_value, to_code;
};
MTF_INLINE Scale scale_of(float largest) {
  const bool has_codes = largest >= kLeastMagnitude && largest <= std::numeric_limits<float>::max();
  return {largest * (1 / kLargestCode), has_codes ? kLargestCode / largest : 0};
}

/// The code of a product value * to_code, in the lower 8 bits: 1.5 * 2^23 has units of 1.
MTF_INLINE int32_t nearest_code(float scaled) { return std::bit_cast<int32_t>(scaled + 12582912.f); }

template <class T>
MTF_INLINE float largest_magnitude(const T* x, int64_t n) {
  int32_t largest = 0;  // magnitudes are ordered like their bits, and NaN is above all of them
  for (int64_t i = 0; i < n; ++i) {
    const int32_t magnitude = std::bit_cast<int32_t>(static_cast<float>(widen(x[i]))) & 0x7fffffff;
    largest = magnitude > largest ? magnitude : largest;
  }
  return std::bit_cast<float>(largest);
}

template <class T>
MTF_INLINE void round_row(const T* x, int64_t n, float to_code, int8_t* codes) {
  for (int64_t i = 0; i < n; ++i) codes[i] = static_cast<int8_t>(nearest_code(widen(x[i]) * to_code));
}

template <class T>
MTF_INLINE void quantize_row(const T* x, int64_t n, const float* largest, int8_t* codes, float* scale) {
  const Scale of_row = scale_of(largest != nullptr ? *largest : largest_magnitude(x, n));
  *scale = of_row.to_value;
  if (of_row.to_code == 0) {
    std::memset(codes, 0, static_cast<size_t>(n));
  } else {
    round_row(x, n, of_row.to_code, codes);
  }
}

/// The axes of `dimensions`, in their order, with the strides of a tensor.
StridedAxes<1> axes_of(const LocalTensor& tensor, const Shape& dimensions) {
  StridedAxes<1> axes;
  for (const Dimension& d : dimensions) {
    const int axis = *tensor.local.find(d.name);
    axes.push_back({tensor.local[axis].size, {tensor.strides[axis]}});
  }
  return joined(axes);
}

template <class T>
std::unique_ptr<Kernel> quantize_rows_kernel_of(const KernelContext& context) {
  const auto& operation = static_cast<const QuantizeRows&>(context.operation);
  const StridedAxes<1> rows = axes_of(context.inputs[0], operation.outputs()[1].shape),
                       summed = axes_of(context.inputs[0], operation.summed);
  const int64_t depth = size_of(summed);
  const bool is_dense = summed.empty() || (summed.size() == 1 && summed[0].strides[0] == 1),
             has_largest = operation.inputs().size() > 1;
  return make_kernel(
      context.outputs[1].local.size(), std::max<int64_t>(1, kElementsPerTask / depth),
      [=](const KernelCall& call, int64_t begin, int64_t end) {
        T* const copied = reinterpret_cast<T*>(call.scratch);
        int64_t row = begin;
        for_each_offset(rows, begin, end, [&](const Offsets<1>& at) {
          const T* x = call.input<T>(0) + at[0];
          if (!is_dense) {
            int64_t k = 0;
            for_each_offset(summed, 0, depth, [&](const Offsets<1>& entry) { copied[k++] = x[entry[0]]; });
            x = copied;
          }
          dispatched<quantize_row<T>>(x, depth, has_largest ? call.input<float>(1) + row : nullptr,
                                      call.output<int8_t>(0) + row * depth, call.output<float>(1) + row);
          ++row;
        });
      },
      is_dense ? 0 : static_cast<size_t>(depth) * sizeof(T));
}

std::unique_ptr<Kernel> quantize_rows_kernel(const KernelContext& context) {
  return visit_type<float, BFloat16>(context.inputs[0].dtype, [&]<class T>(std::type_identity<T>) {
    return quantize_rows_kernel_of<T>(context);
  });
}

/// Units are groups of kColumnsOfBlock columns, whose entries of one depth are neighbours in most weights.
template <class T>
std::unique_ptr<Kernel> quantize_weight_kernel_of(const KernelContext& context) {
  const auto& operation = static_cast<const QuantizeWeight&>(context.operation);
  const StridedAxes<1> columns = axes_of(context.inputs[0], operation.outputs()[1].shape),
                       summed = axes_of(context.inputs[0], operation.summed);
  const int64_t count = context.outputs[1].local.size(), depth = size_of(summed);
  const bool in_blocks = context.outputs[0].local.contains(kBlockColumns);
  const auto place = [=](int64_t column, int64_t k) {
    if (!in_blocks) return column * depth + k;
    return (column / kColumnsOfBlock * depth + k / kDepthsOfBlock * kDepthsOfBlock) * kColumnsOfBlock +
           column % kColumnsOfBlock * kDepthsOfBlock + k % kDepthsOfBlock;
  };
  const int64_t groups = (count + kColumnsOfBlock - 1) / kColumnsOfBlock;
  return make_kernel(
      groups, std::max<int64_t>(1, kElementsPerTask / (kColumnsOfBlock * depth)),
      [=](const KernelCall& call, int64_t begin, int64_t end) {
        for (int64_t group = begin; group < end; ++group) {
          const int64_t first = group * kColumnsOfBlock, n = std::min(kColumnsOfBlock, count - first);
          int64_t offsets[kColumnsOfBlock];
          float to_code[kColumnsOfBlock];
          for (int64_t j = 0; j < n; ++j) {
            const Scale scale = scale_of(call.input<float>(1)[first + j]);
            offsets[j] = offsets_of(columns, first + j)[0];
            to_code[j] = scale.to_code;
            call.output<float>(1)[first + j] = scale.to_value;
          }
          int64_t k = 0;
          for_each_offset(summed, 0, depth, [&](const Offsets<1>& at) {
            const T* w = call.input<T>(0) + at[0];
            for (int64_t j = 0; j < n; ++j) {
              const int32_t code = to_code[j] == 0 ? 0 : nearest_code(widen(w[offsets[j]]) * to_code[j]);
              call.output<uint8_t>(0)[place(first + j, k)] = static_cast<uint8_t>(128 + code);
            }
            ++k;
          });
        }
      });
}

std::unique_ptr<Kernel> quantize_weight_kernel(const KernelContext& context) {
  return visit_type<float, BFloat16>(context.inputs[0].dtype, [&]<class T>(std::type_identity<T>) {
    return quantize_weight_kernel_of<T>(context);
  });
}

const KernelRegistration registrations[] = {
    {"quantize_rows", {DType::kFloat32, DType::kBFloat16}, quantize_rows_kernel},
    {"quantize_weight", {DType::kFloat32, DType::kBFloat16}, quantize_weight_kernel},
};

}  // namespace
}  // namespace mtf
