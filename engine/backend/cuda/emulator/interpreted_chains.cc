#include "engine/backend/cuda/emulator/interpreted_chains.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "engine/backend/cuda/chains/chain_source.h"
#include "engine/backend/cuda/chains/chain_steps.h"
#include "engine/backend/cuda/chains/formula_lists.h"
#include "engine/backend/cuda/launch.h"
#include "engine/backend/visit_type.h"
#include "engine/core/check.h"
#include "engine/ops/binary.h"
#include "engine/ops/component_wise.h"

namespace mtf::cuda::emulator {
namespace {

using Step = Chain::Step;
using Kind = Step::Kind;

/// An element of any type.
struct Slot {
  template <class T>
  T as() const {
    T value;
    std::memcpy(&value, bytes, sizeof(T));
    return value;
  }
  template <class T>
  void set(T value) {
    std::memcpy(bytes, &value, sizeof(T));
  }
  std::byte bytes[8];
};

/// What a step is made from besides its operands.
struct Given {
  double parameter = 0;
  uint32_t bits = 0, threshold = 0;
};

using Operands = std::vector<int>;
/// `values`: all of the chain; `operands`: their numbers.
using Evaluate = Slot (*)(const Operands& operands, const Slot* values, const Given& given);

template <class T>
Slot slot(T value) {
  Slot result;
  result.set(value);
  return result;
}

template <class F, class T>
Slot unary(const Operands& operands, const Slot* values, const Given& given) {
  return slot(steps::unary<F>(values[operands[0]].as<T>(), given.parameter));
}
template <class F, class T>
Slot gradient(const Operands& operands, const Slot* values, const Given& given) {
  return slot(steps::gradient<F>(values[operands[0]].as<T>(), values[operands[1]].as<T>(), given.parameter));
}
template <class F, class T>
Slot binary(const Operands& operands, const Slot* values, const Given&) {
  constexpr bool is_comparison = std::is_same_v<decltype(F::f(Computed<T>(), Computed<T>())), bool>;
  using R = std::conditional_t<is_comparison, bool, T>;
  return slot(steps::binary<F, R>(values[operands[0]].as<T>(), values[operands[1]].as<T>()));
}
template <class T>
Slot where(const Operands& operands, const Slot* values, const Given&) {
  return slot(
      steps::where(values[operands[0]].as<bool>(), values[operands[1]].as<T>(), values[operands[2]].as<T>()));
}
template <class From, class To>
Slot cast(const Operands& operands, const Slot* values, const Given&) {
  return slot(steps::cast<To>(values[operands[0]].as<From>()));
}
template <class T>
Slot dropout(const Operands& operands, const Slot* values, const Given& given) {
  return slot(steps::dropout(values[operands[0]].as<T>(), given.bits, given.threshold, given.parameter));
}
template <class T>
Slot sum(const Operands& operands, const Slot* values, const Given&) {
  T total = values[operands[0]].as<T>();
  for (size_t i = 1; i < operands.size(); ++i)
    total = steps::binary<formulas::Add, T>(total, values[operands[i]].as<T>());
  return slot(total);
}
Slot copy(const Operands& operands, const Slot* values, const Given&) { return values[operands[0]]; }
template <class T>
Slot constant(const Operands&, const Slot*, const Given& given) {
  return slot(narrow<T>(given.parameter));
}

template <class T>
inline constexpr bool kIsFloating = std::is_floating_point_v<Computed<T>>;

#define MTF_UNARY(name)        \
  case UnaryFunction::k##name: \
    return unary<formulas::name, T>;
#define MTF_GRADIENT(name)     \
  case UnaryFunction::k##name: \
    return gradient<formulas::name, T>;
#define MTF_BINARY(name)        \
  case BinaryFunction::k##name: \
    return binary<formulas::name, T>;

template <class T>
Evaluate find(UnaryFunction function) {
  if constexpr (std::is_same_v<T, bool>) {
    switch (function) {
      MTF_UNARY_BOOL_FORMULAS(MTF_UNARY)
      default:
        return nullptr;
    }
  } else {
    switch (function) {
      MTF_UNARY_NUMBER_FORMULAS(MTF_UNARY)
      default:
        break;
    }
    if constexpr (kIsFloating<T>) {
      switch (function) {
        MTF_UNARY_FLOATING_FORMULAS(MTF_UNARY)
        default:
          break;
      }
    }
    return nullptr;
  }
}

template <class T>
Evaluate find_gradient(UnaryFunction function) {
  switch (function) {
    MTF_ACTIVATION_FORMULAS(MTF_GRADIENT)
    default:
      return nullptr;
  }
}

template <class T>
Evaluate find(BinaryFunction function) {
  if constexpr (std::is_same_v<T, bool>) {
    switch (function) {
      MTF_BINARY_BOOL_FORMULAS(MTF_BINARY)
      default:
        return nullptr;
    }
  } else {
    switch (function) {
      MTF_BINARY_NUMBER_FORMULAS(MTF_BINARY)
      default:
        break;
    }
    if constexpr (kIsFloating<T>) {
      switch (function) {
        MTF_BINARY_FLOATING_FORMULAS(MTF_BINARY)
        default:
          break;
      }
    }
    return nullptr;
  }
}

/// `operand`: the type of the first, or of the result where there is none.
Evaluate find(const Step& step, DType operand) {
  const auto of_any = [](DType dtype, const auto& visit) -> Evaluate { return visit_any_type(dtype, visit); };
  switch (step.kind) {
    case Kind::kUnary:
      return of_any(operand, [&]<class T>(std::type_identity<T>) {
        return find<T>(static_cast<UnaryFunction>(step.function));
      });
    case Kind::kGradient:
      return visit_floating_type(operand, [&]<class T>(std::type_identity<T>) {
        return find_gradient<T>(static_cast<UnaryFunction>(step.function));
      });
    case Kind::kBinary:
      return of_any(operand, [&]<class T>(std::type_identity<T>) {
        return find<T>(static_cast<BinaryFunction>(step.function));
      });
    case Kind::kWhere:
      return of_any(step.result, []<class T>(std::type_identity<T>) -> Evaluate { return where<T>; });
    case Kind::kCast:
      return of_any(operand, [&]<class From>(std::type_identity<From>) {
        return visit_any_type(step.result,
                              []<class To>(std::type_identity<To>) -> Evaluate { return cast<From, To>; });
      });
    case Kind::kDropout:
      return visit_type<float, BFloat16, double, int32_t>(
          operand, []<class T>(std::type_identity<T>) -> Evaluate { return dropout<T>; });
    case Kind::kSum:
      return visit_type<float, BFloat16, double, int32_t>(
          operand, []<class T>(std::type_identity<T>) -> Evaluate { return sum<T>; });
    case Kind::kCopy:
      return copy;
    case Kind::kConstant:
      return of_any(step.result, []<class T>(std::type_identity<T>) -> Evaluate { return constant<T>; });
  }
  return nullptr;
}

/// A chain with the functions of its steps.
struct Interpreted {
  Interpreted(const Chain& of, bool in_batches) : chain(of), in_batches(in_batches) {
    for (const Step& step : chain.steps) {
      evaluate.push_back(find(step, step.operands.empty() ? step.result : chain.dtype(step.operands[0])));
      MTF_CHECK(evaluate.back() != nullptr, "no formula for step {} of a chain", evaluate.size() - 1);
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
