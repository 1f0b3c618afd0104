// Contractions by the matmul library, planned by einsum_plan.h.
#include <algorithm>
#include <array>
#include <memory>

#include "engine/backend/cuda/contractions/einsum_plan.h"
#include "engine/backend/cuda/contractions/inner_product.h"
#include "engine/backend/cuda/contractions/prepared_product.h"
#include "engine/backend/cuda/contractions/product.h"
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/cuda/elementwise/formulas.h"
#include "engine/backend/cuda/movement/transpose.h"
#include "engine/backend/element.h"
#include "engine/backend/visit_type.h"
#include "engine/ops/fused_einsum.h"

namespace mtf::cuda {
namespace {

/// Finishes an output that was computed in scratch: adds addend and bias, applies its epilogue, and stores it in
/// its own type and order.
template <class T, class Out>
struct FinishOutput {
  const T* packed;
  Out* y;
  const Out* addend;  ///< stored as y is, or y itself; null if there is none
  const Out* bias;    ///< null if there is none
  Strided<3> walk;    ///< strides of y, of the scratch and of the bias
  Epilogue epilogue;

  MTF_DEVICE void operator()(const Block& block) const {
    using A = Computed<T>;
    for (int64_t i = block.first(); i < walk.size(); i += block.stride()) {
      const Offsets<3> at = walk.at(i);
      A sum = widen(packed[at[1]]);
      if (addend != nullptr) sum += widen(addend[at[0]]);
      if (bias != nullptr) sum += widen(bias[at[2]]);
      if (epilogue == Epilogue::kGelu) sum = formulas::Gelu::f(sum, A(0));
      if (epilogue == Epilogue::kRelu) sum = formulas::Relu::f(sum, A(0));
      y[at[0]] = narrow<Out>(sum);
    }
  }
};

/// Calls the library, and copies operands to and from scratch.
template <class T, class Out>
class ProductKernel final : public Kernel {
 public:
  ProductKernel(const Contraction& contraction, bool accumulates, Device& device)
      : product_(prepare_product(contraction, accumulates, device)),
        bias_(contraction.bias),
        addend_(contraction.addend),
        epilogue_(contraction.epilogue),
        alignment_(contraction.alignment),
        accumulates_(accumulates),
        device_(device) {
    for (size_t i : {kA, kB, kOut}) {
      if (!plan_.packed[i]) continue;
      offsets_[i] = workspace_;
      workspace_ += scratch_aligned(plan_.packed[i]->bytes());
      prepare_copy(i);
    }
    scratch_ = workspace_ + product_.workspace_bytes();
    // The scratch memory of a call may begin at an unaligned address.
    if (scratch_ > 0) scratch_ += kScratchAlignment;
  }

  int64_t tasks() const override { return 1; }
  size_t scratch_bytes() const override { return static_cast<size_t>(scratch_); }

  int64_t run(const KernelCall& call, int64_t, int64_t) const override {
    MTF_CHECK(call.guard == nullptr || plan_.packed[kOut], "the library knows no guard");
    const Launcher launch(device_, call);
    std::byte* scratch = scratch_aligned(call.scratch);
    std::array<std::byte*, 3> operands = {call.inputs[0].data, call.inputs[1].data, call.outputs[0].data};
    for (size_t i : {kA, kB, kOut}) {
      if (!plan_.packed[i]) continue;
      std::byte* tensor = std::exchange(operands[i], scratch + offsets_[i]);
      if (i != kOut) copies_[i](launch, tensor, operands[i]);
    }
    const std::byte* addend = nullptr;
    if (addend_) addend = call.inputs.back().data;
    if (accumulates_ && call.iteration > 0) addend = call.outputs[0].data;
    multiply(operands, bias_ ? call.inputs[2].data : nullptr, plan_.packed[kOut] ? nullptr : addend,
             scratch + workspace_);
    if (plan_.packed[kOut]) finish(launch, call, operands[kOut], addend);
    return plan_.flops;
  }

 private:
  void prepare_copy(size_t operand) {
    const PackedOperand& packed = *plan_.packed[operand];
    // Writes are in order.
    const size_t written = operand == kOut ? 0 : 1;
    StridedAxes<3> axes = packed.axes;
    std::ranges::stable_sort(
        axes, [=](const auto& x, const auto& y) { return x.strides[written] > y.strides[written]; });
    finish_walk_ = operand == kOut ? Strided<3>(axes) : finish_walk_;
    StridedAxes<2> copy;
    for (const auto& [size, strides] : axes) copy.push_back({size, {strides[1 - written], strides[written]}});
    copies_[operand] =
        make_transposition(copy, static_cast<int64_t>(size_of(packed.dtype)), alignment_[operand]);
  }

  void finish(const Launcher& launch, const KernelCall& call, const std::byte* packed,
              const std::byte* addend) const {
    const auto finish_from = [&]<class Sum>(Sum) {
      const Out* bias = bias_ ? call.input<Out>(2) : nullptr;
      launch(over(finish_walk_.size()),
             FinishOutput<Sum, Out>{reinterpret_cast<const Sum*>(packed), call.output<Out>(0),
                                    reinterpret_cast<const Out*>(addend), bias, finish_walk_, epilogue_});
    };
    if (plan_.problem.output != DTypeOf<Out>::value) {
      finish_from(Computed<Out>());
    } else if (addend != nullptr || bias_ || epilogue_ != Epilogue::kNone) {
      finish_from(Out());
    } else {
      copies_[kOut](launch, packed, call.outputs[0].data);
    }
  }

  void multiply(const std::array<std::byte*, 3>& operands, const std::byte* bias, const std::byte* addend,
                void* workspace) const {
    constexpr int64_t kInputSize = sizeof(T);
    const auto output_size = static_cast<int64_t>(size_of(plan_.problem.output));
    if (!plan_.problem.bias) bias = nullptr;
    for_each_offset(plan_.loops, 0, size_of(plan_.loops), [&](const Offsets<4>& loop) {
      const int64_t to = loop[kOut] * output_size;
      const Matmul* matmul = addend != nullptr ? product_.adding.get() : product_.setting.get();
      const std::byte* added = addend != nullptr ? addend + to : nullptr;
      for_each_offset(plan_.sums, 0, size_of(plan_.sums), [&](const Offsets<4>& sum) {
        const std::byte* left = operands[kA] + (loop[kA] + sum[kA]) * kInputSize;
        const std::byte* right = operands[kB] + (loop[kB] + sum[kB]) * kInputSize;
        if (plan_.swapped) std::swap(left, right);
        matmul->run(left, right, operands[kOut] + to, workspace, bias, added);
        matmul = product_.adding.get();
        added = nullptr;
      });
    });
  }

  PreparedProduct product_;
  const EinsumPlan& plan_ = product_.plan;
  bool bias_, addend_;
  Epilogue epilogue_;
  std::array<int64_t, 3> alignment_;
  bool accumulates_;
  Device& device_;
  std::array<int64_t, 3> offsets_{};     ///< offsets of operands in scratch
  std::array<Transposition, 3> copies_;  ///< copies inputs to scratch, the output from it
  Strided<3> finish_walk_;
  int64_t workspace_ = 0;  ///< offset of the workspace in scratch
  int64_t scratch_ = 0;
};

std::unique_ptr<Kernel> einsum_kernel(const KernelContext& context, Device& device) {
  Contraction contraction = contraction_of(context);
  contraction.precision = static_cast<const Einsum&>(context.operation).precision;
  contraction.output_in_scratch = context.guarded;
  return make_product(contraction, context.accumulates, device);
}

Epilogue epilogue_of(const FusedEinsum& operation) {
  if (!operation.activation) return Epilogue::kNone;
  return *operation.activation == UnaryFunction::kGelu ? Epilogue::kGelu : Epilogue::kRelu;
}

std::unique_ptr<Kernel> fused_einsum_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const FusedEinsum&>(context.operation);
  Contraction contraction = contraction_of(context, operation.has_bias, operation.has_addend);
  contraction.precision = operation.precision;
  contraction.epilogue = epilogue_of(operation);
  contraction.output_in_scratch = context.guarded;
  return make_product(contraction, false, device);
}

const DeviceKernelRegistration einsum_floating("einsum", kFloatingTypes, einsum_kernel);
const DeviceKernelRegistration fused_floating("fused_einsum", kFloatingTypes, fused_einsum_kernel);

}  // namespace

std::unique_ptr<Kernel> make_product(const Contraction& contraction, bool accumulates, Device& device) {
  const bool is_plain = !contraction.finishes() && !contraction.addend;
  if (is_plain && contraction.rows.empty() && contraction.columns.empty())
    return make_inner_product(contraction, accumulates, device);
  return visit_floating_type(
      contraction.input, [&]<class T>(std::type_identity<T>) -> std::unique_ptr<Kernel> {
        if (contraction.output != contraction.input)
          return std::make_unique<ProductKernel<T, Computed<T>>>(contraction, accumulates, device);
        return std::make_unique<ProductKernel<T, T>>(contraction, accumulates, device);
      });
}

}  // namespace mtf::cuda
