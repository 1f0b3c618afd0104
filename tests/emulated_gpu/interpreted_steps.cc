#include "tests/emulated_gpu/interpreted_steps.h"

#include "engine/backend/cuda/fusion/fusion_steps.h"
#include "engine/backend/visit_type.h"
#include "engine/base/check.h"
#include "engine/ops/binary.h"
#include "engine/ops/unary.h"

namespace mtf::cuda::emulator {
namespace {

using Step = Fusion::Step;
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

/// True if a formula is defined for operands of type T.
template <class F, class T>
inline constexpr bool kTakes = (F::kOperands & (std::is_floating_point_v<Computed<T>> ? mtf::formulas::kFloats
                                                : std::is_same_v<T, bool>             ? mtf::formulas::kBools
                                                                          : mtf::formulas::kIntegers)) != 0;

template <class F, class T>
constexpr Evaluate unary_of() {
  if constexpr (kTakes<F, T>) return unary<F, T>;
  return nullptr;
}
template <class F, class T>
constexpr Evaluate gradient_of() {
  if constexpr (requires { F::kGradientOf; }) return gradient<F, T>;
  return nullptr;
}
template <class F, class T>
constexpr Evaluate binary_of() {
  if constexpr (kTakes<F, T>) return binary<F, T>;
  return nullptr;
}

// These tables are indexed by function.
#define MTF_UNARY(Formula, name) unary_of<formulas::Formula, T>(),
#define MTF_GRADIENT(Formula, name) gradient_of<formulas::Formula, T>(),
#define MTF_BINARY(Formula, name) binary_of<formulas::Formula, T>(),
template <class T>
constexpr Evaluate kUnarySteps[] = {MTF_UNARY_FUNCTIONS(MTF_UNARY)};
template <class T>
constexpr Evaluate kGradientSteps[] = {MTF_UNARY_FUNCTIONS(MTF_GRADIENT)};
template <class T>
constexpr Evaluate kBinarySteps[] = {MTF_BINARY_FUNCTIONS(MTF_BINARY)};
#undef MTF_UNARY
#undef MTF_GRADIENT
#undef MTF_BINARY

Evaluate find(const Step& step, DType operand) {
  const auto of_any = [](DType dtype, const auto& visit) -> Evaluate { return visit_any_type(dtype, visit); };
  switch (step.kind) {
    case Kind::kUnary:
      return of_any(operand, [&]<class T>(std::type_identity<T>) { return kUnarySteps<T>[step.function]; });
    case Kind::kUnaryGradient:
      return visit_floating_type(
          operand, [&]<class T>(std::type_identity<T>) { return kGradientSteps<T>[step.function]; });
    case Kind::kBinary:
      return of_any(operand, [&]<class T>(std::type_identity<T>) { return kBinarySteps<T>[step.function]; });
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
