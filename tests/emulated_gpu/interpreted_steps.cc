#include "tests/emulated_gpu/interpreted_steps.h"

#include "engine/backend/cuda/chains/chain_steps.h"
#include "engine/backend/cuda/chains/formula_lists.h"
#include "engine/backend/visit_type.h"
#include "engine/base/check.h"
#include "engine/ops/binary.h"
#include "engine/ops/component_wise.h"

namespace mtf::cuda::emulator {
namespace {

using Step = Chain::Step;
using Kind = Step::Kind;

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

}  // namespace

Evaluate function_of(const Step& step, DType operand) {
  const Evaluate found = find(step, operand);
  MTF_CHECK(found != nullptr, "no formula for a step of kind {}", static_cast<int>(step.kind));
  return found;
}

}  // namespace mtf::cuda::emulator
