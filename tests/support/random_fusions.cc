#include "tests/support/random_fusions.h"

#include <algorithm>
#include <random>
#include <vector>

#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/cast.h"
#include "engine/ops/random.h"
#include "engine/ops/unary.h"
#include "tests/support/unary_cases.h"

namespace mtf::testing {
namespace {

constexpr DType kFloating[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64};
constexpr DType kNumbers[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32,
                              DType::kInt64};
constexpr DType kAll[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64,
                          DType::kInt32,   DType::kInt64,    DType::kBool};
/// The types that have kernels for dropout and sums of terms.
constexpr DType kSummed[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32};

class Builder {
 public:
  Builder(uint32_t seed, const Shape& shape) : random_(seed), shape_(shape) {
    made_.graph = std::make_unique<Graph>();
  }

  RandomFusions build(int operations) {
    for (int i = 0; i < operations; ++i) add();
    int outputs = 0;
    for (const Value& value : values_) {
      if (!value.is_read) graph().set_output("output" + std::to_string(outputs++), value.tensor);
    }
    return std::move(made_);
  }

 private:
  struct Value {
    Tensor tensor;
    bool is_read = false;
  };

  Graph& graph() { return *made_.graph; }
  int64_t below(int64_t bound) { return std::uniform_int_distribution<int64_t>(0, bound - 1)(random_); }
  template <class Choices>
  auto one_of(const Choices& choices) {
    return choices[static_cast<size_t>(below(std::ssize(choices)))];
  }

  /// Some of the result's dimensions, occasionally in another order.
  Shape smaller() {
    std::vector<Dimension> dimensions;
    for (const Dimension& d : shape_) {
      if (below(2) == 0) dimensions.push_back(d);
    }
    if (below(4) == 0) std::ranges::shuffle(dimensions, random_);
    return Shape(dimensions);
  }

  Tensor input(const Shape& shape, DType dtype) {
    const std::string name = "x" + std::to_string(made_.feeds.size());
    Values& values = made_.feeds[name];
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < shape.size(); ++i) {
      values.push_back(is_floating(dtype)      ? static_cast<double>(normal(random_))
                       : dtype == DType::kBool ? static_cast<double>(below(2))
                                               : static_cast<double>(below(19) - 9));
    }
    return graph().input(name, shape, dtype);
  }

  /// An earlier result or a new input.
  Tensor operand(DType dtype, bool may_be_smaller) {
    if (below(4) > 0) {
      for (int tries = 0; tries < 8 && !values_.empty(); ++tries) {
        Value& value = values_[static_cast<size_t>(std::max<int64_t>(
            0, std::ssize(values_) - 1 - below(std::min<int64_t>(6, std::ssize(values_)))))];
        if (value.tensor.dtype() != dtype) continue;
        value.is_read = true;
        return value.tensor;
      }
    }
    if (may_be_smaller && below(6) == 0) return graph().constant(static_cast<double>(below(4)), dtype);
    return input(may_be_smaller && below(2) == 0 ? smaller() : shape_, dtype);
  }
  Tensor whole(DType dtype) { return operand(dtype, false); }
  Tensor any(DType dtype) { return operand(dtype, true); }

  void add() { values_.push_back({make(), false}); }

  Tensor make() {
    switch (below(12)) {
      case 0:
      case 1:
        return one_of(kUnaryCases)(whole(one_of(kFloating)));
      case 2: {
        const UnaryCase functions[] = {negative, square, abs, sign};
        return one_of(functions)(whole(one_of(kNumbers)));
      }
      case 3: {
        const DType dtype = one_of(kFloating);
        return graph()
            .add<UnaryGradient>(one_of(kWithGradientKernel), whole(dtype), whole(dtype), 0.3)
            .output();
      }
      case 4:
      case 5: {
        const auto function = static_cast<BinaryFunction>(below(8));
        const bool divides = function == BinaryFunction::kDivide;
        return binary(function, divides ? one_of(kFloating) : one_of(kNumbers));
      }
      case 6:
        return binary(static_cast<BinaryFunction>(static_cast<int>(BinaryFunction::kLess) + below(6)),
                      one_of(kNumbers));
      case 7: {
        const auto function =
            static_cast<BinaryFunction>(static_cast<int>(BinaryFunction::kEqual) + below(4));
        return below(4) == 0 ? logical_not(whole(DType::kBool)) : binary(function, DType::kBool);
      }
      case 8: {
        const DType dtype = one_of(kAll);
        return where(any(DType::kBool), any(dtype), any(dtype), shape_);
      }
      case 9: {
        const DType from = one_of(kAll);
        DType to = one_of(kAll);
        while (to == from) to = one_of(kAll);
        // Numbers that do not fit into an integer have no defined conversion.
        const bool fits = !is_floating(from) || is_floating(to) || to == DType::kBool;
        const Tensor x = fits ? whole(from) : input(shape_, from);
        return cast(x, to);
      }
      case 10: {
        if (below(3) == 0 && shape_.rank() > 0) {
          const Shape shape = smaller();
          if (shape.rank() < shape_.rank()) return broadcast(input(shape, one_of(kAll)), shape_);
        }
        Tensors terms;
        const DType dtype = one_of(kSummed);
        for (int64_t i = below(3); i >= -1; --i) terms.push_back(whole(dtype));
        return add_n(terms);
      }
      default: {
        const Shape noise = below(2) == 0 ? shape_ : smaller();
        return dropout(whole(one_of(kSummed)), 0.3, noise);
      }
    }
  }

  Tensor binary(BinaryFunction function, DType dtype) {
    const Tensor a = any(dtype), b = any(dtype);
    return graph().add<Binary>(function, a, b, shape_).output();
  }

  std::mt19937 random_;
  Shape shape_;
  RandomFusions made_;
  std::vector<Value> values_;
};

}  // namespace

RandomFusions random_fusions(uint32_t seed, const Shape& shape, int operations) {
  return Builder(seed, shape).build(operations);
}

}  // namespace mtf::testing
