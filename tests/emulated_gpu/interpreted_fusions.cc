#include "tests/emulated_gpu/interpreted_fusions.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "engine/backend/cuda/device/kernel_launch.h"
#include "engine/backend/cuda/fusion/fusion_source.h"
#include "engine/backend/cuda/fusion/fusion_steps.h"
#include "engine/base/check.h"
#include "tests/emulated_gpu/interpreted_steps.h"

namespace mtf::cuda::emulator {
namespace {

using Step = Fusion::Step;

/// A fusion with the functions of its steps.
struct Interpreted {
  Interpreted(const Fusion& of, bool in_batches) : fusion(of), in_batches(in_batches) {
    for (const Step& step : fusion.steps) {
      const DType operand = step.operands.empty() ? step.result : fusion.dtype(step.operands[0]);
      evaluate.push_back(function_of(step, operand));
    }
  }

  Fusion fusion;
  bool in_batches;
  std::vector<Evaluate> evaluate;
};

/// The arguments of a launch, decoded from FusionArguments.
struct Told {
  Told(const Fusion& fusion, std::span<const std::byte> bytes) {
    const auto take = [&](auto& value) {
      MTF_CHECK(bytes.size() >= sizeof(value), "{} bytes of arguments are missing", sizeof(value));
      std::memcpy(&value, bytes.data(), sizeof(value));
      bytes = bytes.subspan(sizeof(value));
    };
    take(first);
    walks.resize(fusion.inputs.size());
    for (size_t i = 0; i < fusion.inputs.size(); ++i) {
      if (fusion.walks[i]) take(walks[i]);
    }
    dropouts.resize(static_cast<size_t>(fusion.dropouts()), {Noise{}, 0});
    for (FusionDropout& dropout : dropouts) take(dropout);
    MTF_CHECK(bytes.empty(), "{} bytes of arguments are left over", bytes.size());
  }

  FusionArguments first;
  std::vector<Strided<1>> walks;
  std::vector<FusionDropout> dropouts;
};

void run(const Interpreted& interpreted, const Told& told, int64_t element) {
  const Fusion& fusion = interpreted.fusion;
  std::array<Slot, kMostFusionInputs + kMostFusionParameters> values;
  for (size_t i = 0; i < fusion.inputs.size(); ++i) {
    const size_t bytes = size_of(fusion.inputs[i]);
    const int64_t at = fusion.walks[i] ? told.walks[i].at(element)[0] : element;
    std::memcpy(values[i].bytes,
                static_cast<const std::byte*>(told.first.inputs[i]) + at * static_cast<int64_t>(bytes),
                bytes);
  }
  for (size_t k = 0; k < fusion.steps.size(); ++k) {
    const Step& step = fusion.steps[k];
    Given given;
    if (step.parameter >= 0) given.parameter = told.first.parameters[step.parameter];
    if (step.dropout >= 0) {
      const FusionDropout& dropout = told.dropouts[static_cast<size_t>(step.dropout)];
      given.bits = dropout.noise.bits<1>(element)[0];
      given.threshold = dropout.threshold;
    }
    values[fusion.inputs.size() + k] = interpreted.evaluate[k](step.operands, values.data(), given);
  }
  for (size_t i = 0; i < fusion.results.size(); ++i) {
    const size_t bytes = size_of(fusion.dtype(fusion.results[i]));
    std::memcpy(static_cast<std::byte*>(told.first.outputs[i]) + element * static_cast<int64_t>(bytes),
                values[static_cast<size_t>(fusion.results[i])].bytes, bytes);
  }
}

/// One launch, or the launches of a batch.
struct Launched {
  Launched(std::shared_ptr<const Interpreted> of, std::span<const std::byte> bytes)
      : interpreted(std::move(of)) {
    const Fusion& fusion = interpreted->fusion;
    if (!interpreted->in_batches) {
      told.emplace_back(fusion, bytes);
      return;
    }
    const size_t object = fusion_bytes(fusion);
    const BatchLayout layout(object);
    MTF_CHECK(bytes.size() == layout.bytes, "a batch of {} bytes", bytes.size());
    uint32_t count;
    std::memcpy(&count, bytes.data() + layout.count, sizeof count);
    begins.resize(count + 1);
    std::memcpy(begins.data(), bytes.data() + layout.begins, begins.size() * sizeof(uint32_t));
    for (size_t i = 0; i < count; ++i) told.emplace_back(fusion, bytes.subspan(i * object, object));
  }

  void operator()(const Block& block) const {
    if (!interpreted->in_batches) return run_all(told[0], block);
    const auto index = static_cast<uint32_t>(block.index());
    const auto at = static_cast<size_t>(std::ranges::upper_bound(begins, index) - begins.begin()) - 1;
    run_all(told[at], block.as(index - begins[at], begins[at + 1] - begins[at]));
  }

 private:
  void run_all(const Told& of, const Block& block) const {
    for (int64_t i = block.first(); i < of.first.size; i += block.stride()) run(*interpreted, of, i);
  }

  std::shared_ptr<const Interpreted> interpreted;
  std::vector<Told> told;
  std::vector<uint32_t> begins;
};

class InterpretedFusions final : public FusionKernels {
 public:
  int add(const Fusion& fusion, bool in_batches) override {
    const auto [found, is_new] =
        numbers_.emplace(std::pair(fusion_source(fusion), in_batches), static_cast<int>(fusions_.size()));
    if (is_new) fusions_.push_back(std::make_shared<Interpreted>(fusion, in_batches));
    return found->second;
  }
  void compile() override {}
  void launch(Stream stream, const LaunchShape& shape, const bool* guard, int kernel,
              std::span<const std::byte> arguments) override {
    const auto launched =
        std::make_shared<const Launched>(fusions_.at(static_cast<size_t>(kernel)), arguments);
    emulator::launch(stream, shape, 256, guard, [launched](const Block& block) { (*launched)(block); });
  }

 private:
  std::map<std::pair<std::string, bool>, int> numbers_;
  std::vector<std::shared_ptr<const Interpreted>> fusions_;
};

}  // namespace

std::unique_ptr<FusionKernels> make_interpreted_fusions() { return std::make_unique<InterpretedFusions>(); }

}  // namespace mtf::cuda::emulator
