// The kernel of `multi_tensor`, which combines the launches of its members.
#include "engine/ops/multi_tensor.h"

#include <algorithm>

#include "engine/backend/cuda/device/device_kernel.h"

namespace mtf::cuda {
namespace {

/// The most scratch memory of members whose launches are combined, unless a single one needs more.
constexpr size_t kMostScratch = 8 << 20;
constexpr size_t kAlignment = 256;

class MultiTensorKernel final : public DeviceKernel {
 public:
  MultiTensorKernel(const KernelContext& context, Device& device) : DeviceKernel(device) {
    size_t input = 0, output = 0;
    for (const auto& operation : static_cast<const MultiTensor&>(context.operation).members()) {
      Member member{
          .kernel = {}, .inputs = operation->inputs().size(), .outputs = operation->outputs().size()};
      KernelContext own{.operation = *operation,
                        .inputs = taken(context.inputs, input, member.inputs),
                        .outputs = taken(context.outputs, output, member.outputs),
                        .seed = context.seed,
                        .guarded = context.guarded,
                        .grouped = true};
      member.kernel = prepare_device_kernel(own, device);
      MTF_CHECK(dynamic_cast<const DeviceKernel*>(member.kernel.get()) != nullptr, "{} in a group",
                operation->name());
      place(member);
      members_.push_back(std::move(member));
    }
  }

  size_t scratch_bytes() const override { return scratch_bytes_; }

  void enqueue(const Launcher& launch, const KernelCall& call) const override {
    LaunchBatch batch;
    const auto run = [&] { batch.run(launch.device().compute(), call.guard); };
    size_t input = 0, output = 0;
    for (const Member& member : members_) {
      if (member.begins_batch) {
        run();
        batch = LaunchBatch();
      }
      KernelCall own = call;
      own.inputs = call.inputs.subspan(std::exchange(input, input + member.inputs), member.inputs);
      own.outputs = call.outputs.subspan(std::exchange(output, output + member.outputs), member.outputs);
      own.scratch = call.scratch + member.scratch;
      batch.next_kernel();
      static_cast<const DeviceKernel&>(*member.kernel).enqueue(Launcher(launch.device(), batch), own);
    }
    run();
  }

 private:
  struct Member {
    std::unique_ptr<Kernel> kernel;
    size_t inputs, outputs;
    size_t scratch = 0;  ///< offset of its scratch memory
    bool begins_batch = false;
  };

  static std::vector<LocalTensor> taken(const std::vector<LocalTensor>& all, size_t& begin, size_t count) {
    const auto first = all.begin() + static_cast<ptrdiff_t>(std::exchange(begin, begin + count));
    return {first, first + static_cast<ptrdiff_t>(count)};
  }

  /// Places the member's scratch memory after that of the last member, or at the begin of the memory that
  /// earlier batches have used.
  void place(Member& member) {
    const size_t bytes = (member.kernel->scratch_bytes() + kAlignment - 1) / kAlignment * kAlignment;
    member.begins_batch = members_.empty() || end_ + bytes > kMostScratch;
    if (member.begins_batch) end_ = 0;
    member.scratch = std::exchange(end_, end_ + bytes);
    scratch_bytes_ = std::max(scratch_bytes_, end_);
  }

  std::vector<Member> members_;
  size_t end_ = 0;  ///< end of the scratch memory of the last batch
  size_t scratch_bytes_ = 0;
};

std::unique_ptr<Kernel> multi_tensor_kernel(const KernelContext& context, Device& device) {
  return std::make_unique<MultiTensorKernel>(context, device);
}

const DeviceKernelRegistration grouped[] = {
    {"multi_tensor", kAllTypes, multi_tensor_kernel},
    {"multi_tensor", {DType::kInt8, DType::kUInt8}, multi_tensor_kernel}};

}  // namespace
}  // namespace mtf::cuda
