#include "tests/emulated_gpu/interpreted_chains.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "engine/backend/cuda/chains/chain_source.h"
#include "engine/backend/cuda/chains/chain_steps.h"
#include "engine/backend/cuda/device/launch.h"
#include "engine/base/check.h"
#include "tests/emulated_gpu/interpreted_steps.h"

namespace mtf::cuda::emulator {
namespace {

using Step = Chain::Step;

/// A chain with the functions of its steps.
struct Interpreted {
  Interpreted(const Chain& of, bool in_batches) : chain(of), in_batches(in_batches) {
    for (const Step& step : chain.steps) {
      const DType operand = step.operands.empty() ? step.result : chain.dtype(step.operands[0]);
      evaluate.push_back(function_of(step, operand));
    }
  }

  Chain chain;
  bool in_batches;
  std::vector<Evaluate> evaluate;
};

/// What a launch is told, as ChainArguments has it.
struct Told {
  Told(const Chain& chain, std::span<const std::byte> bytes) {
    const auto take = [&](auto& value) {
      MTF_CHECK(bytes.size() >= sizeof(value), "{} bytes of arguments are missing", sizeof(value));
      std::memcpy(&value, bytes.data(), sizeof(value));
      bytes = bytes.subspan(sizeof(value));
    };
    take(first);
    walks.resize(chain.inputs.size());
    for (size_t i = 0; i < chain.inputs.size(); ++i) {
      if (chain.walks[i]) take(walks[i]);
    }
    dropouts.resize(static_cast<size_t>(chain.dropouts()), {Noise{}, 0});
    for (ChainDropout& dropout : dropouts) take(dropout);
    MTF_CHECK(bytes.empty(), "{} bytes of arguments are left over", bytes.size());
  }

  ChainArguments first;
  std::vector<Strided<1>> walks;
  std::vector<ChainDropout> dropouts;
};

void run(const Interpreted& interpreted, const Told& told, int64_t element) {
  const Chain& chain = interpreted.chain;
  std::array<Slot, kMostChainInputs + kMostChainParameters> values;
  for (size_t i = 0; i < chain.inputs.size(); ++i) {
    const size_t bytes = size_of(chain.inputs[i]);
    const int64_t at = chain.walks[i] ? told.walks[i].at(element)[0] : element;
    std::memcpy(values[i].bytes,
                static_cast<const std::byte*>(told.first.inputs[i]) + at * static_cast<int64_t>(bytes),
                bytes);
  }
  for (size_t k = 0; k < chain.steps.size(); ++k) {
    const Step& step = chain.steps[k];
    Given given;
    if (step.parameter >= 0) given.parameter = told.first.parameters[step.parameter];
    if (step.dropout >= 0) {
      const ChainDropout& dropout = told.dropouts[static_cast<size_t>(step.dropout)];
      given.bits = dropout.noise.bits<1>(element)[0];
      given.threshold = dropout.threshold;
    }
    values[chain.inputs.size() + k] = interpreted.evaluate[k](step.operands, values.data(), given);
  }
  for (size_t i = 0; i < chain.results.size(); ++i) {
    const size_t bytes = size_of(chain.dtype(chain.results[i]));
    std::memcpy(static_cast<std::byte*>(told.first.outputs[i]) + element * static_cast<int64_t>(bytes),
                values[static_cast<size_t>(chain.results[i])].bytes, bytes);
  }
}

/// A launch, or the launches of a batch.
struct Launched {
  Launched(std::shared_ptr<const Interpreted> of, std::span<const std::byte> bytes)
      : interpreted(std::move(of)) {
    const Chain& chain = interpreted->chain;
    if (!interpreted->in_batches) {
      told.emplace_back(chain, bytes);
      return;
    }
    const size_t object = chain_bytes(chain);
    const BatchLayout layout(object);
    MTF_CHECK(bytes.size() == layout.bytes, "a batch of {} bytes", bytes.size());
    uint32_t count;
    std::memcpy(&count, bytes.data() + layout.count, sizeof count);
    begins.resize(count + 1);
    std::memcpy(begins.data(), bytes.data() + layout.begins, begins.size() * sizeof(uint32_t));
    for (size_t i = 0; i < count; ++i) told.emplace_back(chain, bytes.subspan(i * object, object));
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

class InterpretedChains final : public ChainKernels {
 public:
  int add(const Chain& chain, bool in_batches) override {
    const auto [found, is_new] =
        numbers_.emplace(std::pair(chain_source(chain), in_batches), static_cast<int>(chains_.size()));
    if (is_new) chains_.push_back(std::make_shared<Interpreted>(chain, in_batches));
    return found->second;
  }
  void compile() override {}
  void launch(Stream stream, const LaunchShape& shape, const bool* guard, int kernel,
              std::span<const std::byte> arguments) override {
    const auto launched =
        std::make_shared<const Launched>(chains_.at(static_cast<size_t>(kernel)), arguments);
    emulator::launch(stream, shape, 256, guard, [launched](const Block& block) { (*launched)(block); });
  }

 private:
  std::map<std::pair<std::string, bool>, int> numbers_;
  std::vector<std::shared_ptr<const Interpreted>> chains_;
};

}  // namespace

std::unique_ptr<ChainKernels> make_interpreted_chains() { return std::make_unique<InterpretedChains>(); }

}  // namespace mtf::cuda::emulator
