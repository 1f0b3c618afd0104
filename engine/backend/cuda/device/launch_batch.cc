#include "engine/backend/cuda/device/launch_batch.h"

#include "engine/backend/cuda/device/fusion_kernels.h"

namespace mtf::cuda {

class LaunchBatch::FusionLaunches final : public Launches {
 public:
  FusionLaunches(FusionKernels& fusions, int kernel, size_t object, int threads)
      : Launches(object, threads), fusions_(fusions), kernel_(kernel) {}
  int kernel() const { return kernel_; }

 private:
  void launch(Stream stream, const LaunchShape& shape, const bool* guard,
              std::span<const std::byte> batch) const override {
    fusions_.launch(stream, shape, guard, kernel_, batch);
  }

  FusionKernels& fusions_;
  const int kernel_;
};

void LaunchBatch::add_fusion(FusionKernels& fusions, int kernel, const LaunchShape& shape,
                             std::span<const std::byte> arguments) {
  Stage& stage = next_stage();
  for (const auto& launches : stage) {
    auto* alike = dynamic_cast<FusionLaunches*>(launches.get());
    if (alike != nullptr && alike->kernel() == kernel) return alike->add(shape, arguments.data());
  }
  stage.push_back(std::make_unique<FusionLaunches>(fusions, kernel, arguments.size(), shape.threads));
  stage.back()->add(shape, arguments.data());
}

void LaunchBatch::run(Stream stream, const bool* guard) const {
  for (const Stage& stage : stages_)
    for (const auto& launches : stage) launches->run(stream, guard);
}

LaunchBatch::Stage& LaunchBatch::next_stage() {
  if (stage_ == stages_.size()) stages_.emplace_back();
  return stages_[stage_++];
}

void LaunchBatch::Launches::add(const LaunchShape& shape, const void* object) {
  if (shape.blocks == 0) return;
  shapes_.push_back(shape);
  const auto* bytes = static_cast<const std::byte*>(object);
  objects_.insert(objects_.end(), bytes, bytes + object_);
}

void LaunchBatch::Launches::run(Stream stream, const bool* guard) const {
  const BatchLayout layout(object_);
  for (size_t first = 0; first < shapes_.size(); first += layout.most) {
    const auto count = static_cast<uint32_t>(std::min(layout.most, shapes_.size() - first));
    std::vector<std::byte> batch(layout.bytes);
    std::memcpy(batch.data(), objects_.data() + first * object_, count * object_);
    LaunchShape shape{0, threads_, 0};
    for (uint32_t i = 0; i < count; ++i) {
      shape.blocks += shapes_[first + i].blocks;
      shape.shared_bytes = std::max(shape.shared_bytes, shapes_[first + i].shared_bytes);
      const auto end = static_cast<uint32_t>(shape.blocks);
      std::memcpy(batch.data() + layout.begins + (i + 1) * sizeof end, &end, sizeof end);
    }
    std::memcpy(batch.data() + layout.count, &count, sizeof count);
    launch(stream, shape, guard, batch);
  }
}

}  // namespace mtf::cuda
