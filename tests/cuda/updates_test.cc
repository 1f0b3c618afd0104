#include <gtest/gtest.h>

#include "engine/ops/adafactor.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/slot_code.h"
#include "engine/ops/stochastic_cast.h"
#include "tests/cuda/kernel_comparison.h"
#include "tests/support/evaluate_tensors.h"

namespace mtf::testing {
namespace {

constexpr double kTolerance = 1e-6;
constexpr DType kWeightTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16};

DType slot_type(DType weight) { return weight == DType::kBFloat16 ? DType::kFloat32 : weight; }

Values squares(Values values) {
  for (double& value : values) value *= value;
  return values;
}

/// The inputs of updates of one weight.
struct Inputs {
  Inputs(const Shape& shape, DType dtype)
      : shape(shape), slots(slot_type(dtype)), w(graph.input("w", shape, dtype)), g(slot("g", shape)) {}
  Tensor slot(const std::string& name, const Shape& of) { return graph.input(name, of, slots); }
  Tensor scalar(const std::string& name) { return slot(name, {}); }

  Graph graph;
  Shape shape;
  DType slots;
  Tensor w, g;
};

/// Compares both out of place and in place. `positive` are inputs whose square roots are taken; `scalars` are
/// the values of 0-dimensional inputs.
void expect_same_update(const Tensor& output, const std::vector<int>& positive = {},
                        const std::vector<std::pair<int, double>>& scalars = {}) {
  KernelComparison comparison(output);
  comparison.tolerance = kTolerance;
  for (int i : positive) {
    ComparedOperand& input = comparison.inputs[static_cast<size_t>(i)];
    input.values = squares(random_normal_values(input.local.size(), static_cast<uint32_t>(i) + 7));
  }
  for (const auto& [i, value] : scalars) comparison.inputs[static_cast<size_t>(i)].values = {value};
  comparison.expect_same();
  comparison.in_place = true;
  comparison.expect_same();
}

/// Sizes: less than a pack, one pack, several packs, and a number that is not a multiple of a pack.
class Updates : public ::testing::TestWithParam<int64_t> {
 protected:
  Shape shape() const { return {{"a", GetParam()}}; }
};
INSTANTIATE_TEST_SUITE_P(Sizes, Updates, ::testing::Values(1, 3, 8, 1000, 4099));

TEST_P(Updates, SgdMomentumAndAdam) {
  for (DType dtype : kWeightTypes) {
    Inputs in(shape(), dtype);
    const Tensor rate = in.scalar("rate"), v = in.slot("v", shape()), m = in.slot("m", shape());
    expect_same_update(sgd_update(in.w, in.g, rate), {}, {{2, 0.1}});
    expect_same_update(momentum_update(in.w, in.g, v, rate, 0.9).weight, {}, {{3, 0.1}});
    expect_same_update(adam_update(in.w, in.g, m, v, rate, {.weight_decay = 0.01}).weight, {3}, {{4, 0.01}});
    const BiasCorrection correction{in.scalar("first"), in.scalar("second")};
    expect_same_update(adam_update(in.w, in.g, m, v, rate, {}, correction).weight, {3},
                       {{4, 0.01}, {5, 1.9}, {6, 31.0}});
  }
}

/// Without a gradient and with a rate of zero every result is exact, so that slots are rounded by the same bits.
void expect_same_rounding(const Tensor& output, int rate) {
  KernelComparison comparison(output);
  comparison.step = 7;
  comparison.inputs[1].values = Values(static_cast<size_t>(comparison.inputs[1].local.size()));
  Values& v = comparison.inputs[static_cast<size_t>(rate - 1)].values;
  v = squares(random_normal_values(comparison.inputs[0].local.size(), 7));
  comparison.inputs[static_cast<size_t>(rate)].values = {0};
  comparison.expect_same();
  comparison.in_place = true;
  comparison.expect_same();
}

TEST_P(Updates, RoundSlotsAtRandom) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Inputs in(shape(), dtype);
    const Tensor rate = in.scalar("rate"), m = in.graph.input("m", shape(), DType::kBFloat16),
                 v = in.graph.input("v", shape(), DType::kBFloat16);
    expect_same_update(momentum_update(in.w, in.g, v, rate, 0.9).weight, {}, {{3, 0.1}});
    expect_same_update(adam_update(in.w, in.g, m, v, rate, {.weight_decay = 0.01}).weight, {3}, {{4, 0.01}});
    expect_same_rounding(momentum_update(in.w, in.g, v, rate, 0.9, 6).weight, 3);
    expect_same_rounding(adam_update(in.w, in.g, m, v, rate, {.first_element = 8}).weight, 4);
  }
}

TEST_P(Updates, StochasticCast) {
  Graph graph;
  KernelComparison comparison(stochastic_cast(graph.input("x", shape())));
  comparison.step = 3;
  comparison.expect_same();
}

TEST(StochasticCast, IsThatOfTheWholeTensorInSlices) {
  Graph graph;
  KernelComparison comparison(stochastic_cast(graph.input("x", {{"a", 12}, {"b", 9}, {"c", 40}})));
  const std::vector<std::pair<Shape, std::vector<int64_t>>> slices = {
      {{{"a", 6}, {"b", 9}, {"c", 40}}, {6, 0, 0}},
      {{{"a", 6}, {"b", 9}, {"c", 20}}, {0, 0, 20}},
      {{{"a", 12}, {"b", 3}, {"c", 10}}, {0, 6, 30}}};
  for (const auto& [local, begin] : slices) {
    comparison.inputs[0].take(local, begin);
    comparison.outputs[0].take(local, begin);
    comparison.expect_same();
  }
}

/// Rows of 1, 3 and 40 entries, and codes of all values.
TEST(SlotCodes, AreAsOnTheProcessor) {
  for (const DType code : {DType::kInt8, DType::kUInt8}) {
    for (const int64_t columns : {1, 3, 40}) {
      const Shape shape{{"a", 70}, {"b", columns}};
      Graph graph;
      const Tensor x = graph.input("x", shape), largest = graph.input("largest", {{"a", 70}});
      const Values sizes = squares(random_normal_values(70, 5));
      KernelComparison encoded(encode_slot(x, largest, code, 6));
      encoded.step = 3;
      encoded.inputs[1].values = sizes;
      if (code == DType::kUInt8) encoded.inputs[0].values = squares(random_normal_values(shape.size(), 3));
      encoded.expect_same();
      KernelComparison decoded(decode_slot(graph.input("codes", shape, code), largest));
      const int64_t least = code == DType::kInt8 ? -128 : 0;
      decoded.inputs[0].values = random_whole_values(shape.size(), least, least + 256, 9);
      decoded.inputs[1].values = sizes;
      decoded.expect_same();
    }
  }
}

TEST(AllFinite, IsAsOnTheProcessor) {
  Graph graph;
  KernelComparison comparison(all_finite({graph.input("x", {}), graph.input("y", {})}));
  comparison.expect_same();
  comparison.inputs[1].values = {kNaN};
  comparison.expect_same();
}

TEST_P(Updates, SecondMoment) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    Inputs in(shape(), dtype);
    const auto& operation =
        in.graph.add<AdafactorSecondMoment>(in.slot("v", shape()), in.g, in.scalar("decay"), 1e-30);
    expect_same_update(operation.output(), {0}, {{2, 0.8}});
  }
}

/// The kernel's result for `count` scalars that are all one, except number `i`, which is `value`.
bool are_all_finite(int count, DType dtype, int i, double value) {
  Graph graph;
  Tensors scalars;
  for (int n = 0; n < count; ++n) scalars.push_back(graph.input("x" + std::to_string(n), {}, dtype));
  const Operation& operation = all_finite(scalars).operation();
  const LocalTensor in{{}, {}, {}, dtype}, out{{}, {}, {}, DType::kBool};
  const auto kernel =
      cuda_device().prepare({operation, std::vector<LocalTensor>(scalars.size(), in), {out}, 0});
  Values values(scalars.size(), 1);
  values[static_cast<size_t>(i)] = value;
  GuardedMemory memory(bytes_of(values, dtype)), result(bytes_of({-1}, DType::kBool));
  std::vector<Slice> inputs;
  for (int n = 0; n < count; ++n)
    inputs.push_back({memory.data() + n * static_cast<int64_t>(size_of(dtype)), nullptr});
  const Slice output{result.data(), nullptr};
  kernel->run({inputs, {&output, 1}}, 0, 1);
  cuda_device().wait();
  return values_of(result.read(), DType::kBool)[0] != 0;
}

/// There are more scalars than threads, and more than one launch takes.
TEST(AllFinite, LooksAtEveryScalar) {
  for (DType dtype : kWeightTypes) {
    for (int count : {1, 130, 256, 257, 700}) {
      EXPECT_TRUE(are_all_finite(count, dtype, 0, 1e30));
      for (int i : {0, count / 2, count - 1}) {
        for (double value : {kInfinity, -kInfinity, kNaN})
          EXPECT_FALSE(are_all_finite(count, dtype, i, value)) << i << " of " << count << ": " << value;
      }
    }
  }
}

/// A weight, its factored dimensions (none if it is not factored), and the dimensions that keep scales of
/// their own.
struct Weight {
  Shape shape;
  Shape factored;  ///< largest first
  Shape kept = {};
};
const Weight kWeights[] = {
    {{}, {}},
    {{{"a", 5}}, {}},
    {{{"a", 40001}}, {}},
    {{{"a", 6}, {"b", 7}}, {{"b", 7}, {"a", 6}}},
    {{{"a", 130}, {"b", 260}}, {{"b", 260}, {"a", 130}}},
    {{{"a", 260}, {"b", 128}}, {{"a", 260}, {"b", 128}}},
    {{{"a", 70}, {"m", 3}, {"b", 133}}, {{"b", 133}, {"a", 70}}},
    {{{"o", 3}, {"a", 65}, {"m", 2}, {"b", 136}}, {{"b", 136}, {"a", 65}}, {{"o", 3}}},
    {{{"a", 66}, {"b", 40}, {"i", 5}}, {{"a", 66}, {"b", 40}}},
    {{{"a", 20}, {"m", 2}, {"b", 24}, {"i", 8}}, {{"b", 24}, {"a", 20}}, {{"m", 2}}},
    {{{"a", 70}, {"b", 65}, {"i", 4}}, {{"a", 70}, {"b", 65}}, {{"i", 4}}},
    {{{"k", 3}, {"a", 9}, {"l", 2}, {"b", 8}}, {{"a", 9}, {"b", 8}}, {{"k", 3}, {"l", 2}}},
    {{{"k", 3}, {"a", 16}}, {}, {{"k", 3}}},
    {{{"k", 3}}, {}, {{"k", 3}}},
};

class Adafactor : public ::testing::TestWithParam<Weight> {
 protected:
  /// The factors of the update, or v.
  static Tensors factors(Inputs& in) {
    const auto& [shape, factored, kept] = GetParam();
    if (factored.rank() == 0) return {in.slot("v", shape)};
    return {in.slot("first", shape - factored[0]), in.slot("second", shape - factored[1])};
  }
};
INSTANTIATE_TEST_SUITE_P(Weights, Adafactor, ::testing::ValuesIn(kWeights));

TEST_P(Adafactor, Sums) {
  const auto& [shape, factored, kept] = GetParam();
  for (DType dtype : kWeightTypes) {
    Inputs in(shape, dtype);
    expect_same_update(in.graph.add<AdafactorSums>(in.w, in.g, factored, kept).output());
    if (factored.rank() > 0)
      expect_same_update(in.graph.add<AdafactorSums>(in.w, in.g, factored, std::nullopt).output());
  }
}

TEST_P(Adafactor, SquaresOfTheUpdate) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    Inputs in(GetParam().shape, dtype);
    Tensors inputs{in.g};
    for (const Tensor& factor : factors(in)) inputs.push_back(factor);
    expect_same_update(in.graph.add<AdafactorUpdateSquares>(inputs).output(), {1});
  }
}

TEST_P(Adafactor, Apply) {
  const auto& [shape, factored, kept] = GetParam();
  for (DType dtype : kWeightTypes) {
    for (double beta1 : {0.0, 0.9}) {
      Inputs in(shape, dtype);
      Tensors inputs{in.w, in.g, in.slot("scale", kept)};
      if (beta1 > 0) inputs.push_back(in.slot("m", shape));
      const int first = static_cast<int>(inputs.size());
      for (const Tensor& factor : factors(in)) inputs.push_back(factor);
      expect_same_update(in.graph.add<AdafactorApply>(inputs, beta1).output(), {first});
    }
  }
}

TEST(AdafactorSlices, ArePartsOfTheWeight) {
  const Shape local{{"a", 33}, {"b", 130}};
  const Dimension a{"a", 66}, b{"b", 260};
  Inputs in({a, b}, DType::kFloat32);
  KernelComparison sums(in.graph.add<AdafactorSums>(in.w, in.g, Shape{b, a}, Shape{}).output());
  sums.tolerance = kTolerance;
  for (ComparedOperand& input : sums.inputs) input.take(local, {33, 130});
  sums.outputs[0].take({{"a", 33}}, {33});
  sums.outputs[1].take({{"b", 130}}, {130});
  sums.expect_same();
}

/// Runs a kernel of large weights on both backends and compares the sums over their blocks.
void expect_same_totals(const Operation& operation, const std::vector<Values>& inputs) {
  std::vector<LocalTensor> in, out;
  for (const Tensor& t : operation.inputs())
    in.push_back({t.shape(), t.shape(), t.shape().strides(), t.dtype()});
  for (const OutputInfo& o : operation.outputs())
    out.push_back({o.shape, o.shape, o.shape.strides(), o.dtype});
  const KernelContext context{operation, in, out, 0};
  const auto totals = [&](Backend& backend) {
    const std::unique_ptr<Kernel> kernel = backend.prepare(context);
    std::vector<std::unique_ptr<DeviceMemory>> memory;
    const auto operand = [&](const LocalTensor& t) {
      memory.push_back(backend.allocate(bytes_of(t.local, t.dtype)));
      return memory.back()->data();
    };
    std::vector<Slice> slices;
    for (size_t i = 0; i < in.size(); ++i) {
      slices.push_back({operand(in[i]), nullptr});
      const std::vector<std::byte> bytes = bytes_of(inputs[i], in[i].dtype);
      backend.write(slices.back().data, bytes.data(), static_cast<int64_t>(bytes.size()));
    }
    for (const LocalTensor& t : out) slices.push_back({operand(t), nullptr});
    const auto scratch = backend.allocate(static_cast<int64_t>(kernel->scratch_bytes()));
    const std::span<const Slice> all(slices);
    kernel->run({all.first(in.size()), all.subspan(in.size()), scratch->data()}, 0, kernel->tasks());
    backend.wait();
    std::vector<Values> result;
    for (size_t i = 0; i < out.size(); ++i) {
      std::vector<std::byte> bytes(static_cast<size_t>(out[i].local.size()) * sizeof(double));
      backend.read(bytes.data(), slices[in.size() + i].data, static_cast<int64_t>(bytes.size()));
      const Values values = values_of(bytes, DType::kFloat64);
      const size_t entries = values.size() / static_cast<size_t>(out[i].local[0].size);
      Values& total = result.emplace_back(entries);
      for (size_t v = 0; v < values.size(); ++v) total[v % entries] += values[v];
    }
    return result;
  };
  const std::vector<Values> expected = totals(*make_cpu_backend());
  const std::vector<Values> actual = totals(cuda_device());
  for (size_t i = 0; i < expected.size(); ++i) {
    for (size_t v = 0; v < expected[i].size(); ++v)
      ASSERT_NEAR(actual[i][v], expected[i][v], 1e-12 * expected[i][v]) << "output " << i << ", entry " << v;
  }
}

TEST(AdafactorBlocks, AddUpToTheSameSums) {
  const Dimension a{"a", 1030}, b{"b", 1028};
  Inputs in({a, b}, DType::kFloat32);
  ASSERT_TRUE(adafactor_blocks(in.shape));
  const Values w = random_normal_values(in.shape.size(), 1), g = random_normal_values(in.shape.size(), 2);
  expect_same_totals(in.graph.add<AdafactorSums>(in.w, in.g, Shape{a, b}, Shape{}), {w, g});
  const Tensors factors{in.slot("first", {b}), in.slot("second", {a})};
  expect_same_totals(in.graph.add<AdafactorUpdateSquares>(Tensors{in.g, factors[0], factors[1]}),
                     {g, random_normal_values(b.size, 3), random_normal_values(a.size, 4)});
}

}  // namespace
}  // namespace mtf::testing
