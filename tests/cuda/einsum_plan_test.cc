#include "engine/backend/cuda/contractions/einsum_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "engine/backend/cuda/contractions/matmul_plan.h"
#include "engine/graph/graph.h"
#include "engine/ops/einsum.h"

namespace mtf::cuda {
namespace {

using Numbers = std::vector<double>;

struct Einsum {
  Shape a, b, out;
  DType input = DType::kFloat32, output = DType::kFloat32;
  std::optional<Shape> bias = {};  ///< if set, followed by a gelu

  Contraction contraction() const {
    Graph graph;
    const auto& operation =
        graph.add<mtf::Einsum>(graph.input("a", a, input), graph.input("b", b, input), out, output);
    const auto tensor = [](const Shape& shape, DType dtype) {
      return LocalTensor{shape, shape, shape.strides(), dtype};
    };
    KernelContext context{operation, {tensor(a, input), tensor(b, input)}, {tensor(out, output)}};
    if (bias) context.inputs.push_back(tensor(*bias, output));
    Contraction result = contraction_of(context, bias.has_value());
    if (bias) result.epilogue = Epilogue::kGelu;
    return result;
  }
};

int64_t calls(const EinsumPlan& plan) { return size_of(plan.loops) * size_of(plan.sums); }

bool packs(const EinsumPlan& plan) { return plan.packed[kA] || plan.packed[kB] || plan.packed[kOut]; }

/// Stands in for gelu with an arbitrary function.
double finished(Epilogue epilogue, double x) { return epilogue == Epilogue::kGelu ? std::max(x, 0.0) : x; }

/// Computes one call with loops and checks everything that a library takes for granted.
void multiply(const MatmulProblem& problem, bool accumulate, const double* a, const double* b, double* c,
              const double* bias) {
  ASSERT_GE(problem.row_a, problem.transpose_a ? problem.m : problem.k);
  ASSERT_GE(problem.row_b, problem.transpose_b ? problem.k : problem.n);
  ASSERT_GE(problem.row_c, problem.n);
  const auto at = [](bool transposed, int64_t row, int64_t i, int64_t j) {
    return transposed ? j * row + i : i * row + j;
  };
  for (int64_t batch = 0; batch < problem.batch; ++batch) {
    for (int64_t i = 0; i < problem.m; ++i) {
      for (int64_t j = 0; j < problem.n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < problem.k; ++k) {
          sum += a[batch * problem.batch_a + at(problem.transpose_a, problem.row_a, i, k)] *
                 b[batch * problem.batch_b + at(problem.transpose_b, problem.row_b, k, j)];
        }
        double& result = c[batch * problem.batch_c + i * problem.row_c + j];
        ASSERT_EQ(std::isnan(result), !accumulate) << "written twice, or added to nothing";
        result = finished(problem.epilogue, (accumulate ? result : 0) + sum + (problem.bias ? bias[j] : 0));
      }
    }
  }
}

template <class Visit>
void for_each_packed(const PackedOperand& packed, const Visit& visit) {
  for_each_offset(packed.axes, 0, size_of(packed.axes), visit);
}

Numbers run(const EinsumPlan& plan, Numbers a, Numbers b, const Numbers& bias, Epilogue epilogue,
            int64_t outputs) {
  std::array<Numbers, 3> tensors = {std::move(a), std::move(b), Numbers(outputs, NAN)}, scratch;
  std::array<Numbers*, 3> operands;
  for (size_t i = 0; i < 3; ++i) {
    operands[i] = plan.packed[i] ? &scratch[i] : &tensors[i];
    if (!plan.packed[i]) continue;
    scratch[i].assign(plan.packed[i]->elements, NAN);
    if (i == kOut) continue;
    for_each_packed(*plan.packed[i],
                    [&](const Offsets<3>& at) { scratch[i].at(at[1]) = tensors[i].at(at[0]); });
  }
  for_each_offset(plan.loops, 0, size_of(plan.loops), [&](const Offsets<4>& loop) {
    bool accumulate = false;
    for_each_offset(plan.sums, 0, size_of(plan.sums), [&](const Offsets<4>& sum) {
      const double* left = operands[kA]->data() + loop[kA] + sum[kA];
      const double* right = operands[kB]->data() + loop[kB] + sum[kB];
      if (plan.swapped) std::swap(left, right);
      multiply(plan.problem, accumulate, left, right, operands[kOut]->data() + loop[kOut], bias.data());
      accumulate = true;
    });
  });
  if (plan.packed[kOut]) {
    EXPECT_TRUE(!plan.problem.bias && plan.problem.epilogue == Epilogue::kNone) << "finished twice";
    for_each_packed(*plan.packed[kOut], [&](const Offsets<3>& at) {
      const double sum = scratch[kOut].at(at[1]) + (bias.empty() ? 0 : bias.at(at[2]));
      tensors[kOut].at(at[0]) = finished(epilogue, sum);
    });
  }
  return tensors[kOut];
}

/// The definition of the contraction: a loop over all combinations of all dimensions.
Numbers by_definition(const Einsum& einsum, const Numbers& a, const Numbers& b, const Numbers& bias) {
  const Shape all = einsum.a + einsum.b;
  const Shape none;
  StridedAxes<4> axes, output_axes;
  for (const Dimension& d : all) {
    StridedAxis<4> axis{d.size, {}};
    const Shape* shapes[] = {&einsum.a, &einsum.b, &einsum.out, einsum.bias ? &*einsum.bias : &none};
    for (size_t i : {kA, kB, kOut, kBias}) {
      if (const auto position = shapes[i]->find(d.name)) axis.strides[i] = shapes[i]->strides()[*position];
    }
    axes.push_back(axis);
    if (einsum.out.contains(d.name)) output_axes.push_back(axis);
  }
  Numbers result(einsum.out.size());
  for_each_offset(axes, 0, size_of(axes),
                  [&](const Offsets<4>& at) { result[at[kOut]] += a[at[kA]] * b[at[kB]]; });
  if (!einsum.bias) return result;
  for_each_offset(output_axes, 0, size_of(output_axes), [&](const Offsets<4>& at) {
    result[at[kOut]] = finished(Epilogue::kGelu, result[at[kOut]] + bias[at[kBias]]);
  });
  return result;
}

void expect_right(const Einsum& einsum, bool output_in_scratch = false,
                  LibraryUse use = LibraryUse::kFinishes) {
  SCOPED_TRACE(einsum.a.to_string() + " " + einsum.b.to_string() + " -> " + einsum.out.to_string());
  std::mt19937 generator(1);
  const auto whole_numbers = [&](const Shape& shape) {
    Numbers numbers(shape.size());
    for (double& x : numbers) x = static_cast<double>(static_cast<int>(generator() % 9) - 4);
    return numbers;
  };
  const Numbers a = whole_numbers(einsum.a), b = whole_numbers(einsum.b),
                bias = einsum.bias ? whole_numbers(*einsum.bias) : Numbers();
  Contraction contraction = einsum.contraction();
  contraction.output_in_scratch = output_in_scratch;
  const EinsumPlan plan = plan_einsum(contraction, use);
  EXPECT_TRUE(plan.packed[kOut] || !output_in_scratch);
  EXPECT_TRUE(use == LibraryUse::kFinishes ||
              (!plan.problem.bias && plan.problem.epilogue == Epilogue::kNone));
  if (use == LibraryUse::kAligned) {
    const ColumnMajorProblem matrices = column_major(plan.problem);
    for (const ColumnMajorMatrix& matrix : {matrices.first, matrices.second, matrices.output})
      EXPECT_GE(matrix.alignment, 16) << text(plan.problem);
    EXPECT_EQ(size_of(plan.loops) * size_of(plan.sums), 1);
  }
  EXPECT_TRUE(plan.sums.empty() || plan.problem.output != DType::kBFloat16) << "rounded more than once";
  EXPECT_EQ(plan.flops, 2 * (einsum.a + einsum.b).size());
  EXPECT_EQ(run(plan, a, b, bias, contraction.epilogue, einsum.out.size()),
            by_definition(einsum, a, b, bias));
}

/// A contraction whose classes have up to `most_dimensions` dimensions of 1 to `most` entries; the operands
/// have them in any order.
Einsum random_einsum(std::mt19937& generator, int most_dimensions, int64_t most) {
  std::vector<Dimension> dimensions[3];  // dimensions of a, b and the output
  const auto add = [&](const char* name, int least, std::initializer_list<int> operands) {
    const int count = std::uniform_int_distribution<int>(least, most_dimensions)(generator);
    for (int i = 0; i < count; ++i) {
      const Dimension d{name + std::to_string(i), std::uniform_int_distribution<int64_t>(1, most)(generator)};
      for (int operand : operands) dimensions[operand].push_back(d);
    }
  };
  add("batch", 0, {0, 1, 2});
  add("row", 0, {0, 2});
  add("column", 0, {1, 2});
  add("summed", 1, {0, 1});
  for (auto& operand : dimensions) std::shuffle(operand.begin(), operand.end(), generator);
  return {Shape(dimensions[0]), Shape(dimensions[1]), Shape(dimensions[2])};
}

Shape some_of(const Shape& shape, std::mt19937& generator) {
  std::vector<Dimension> dimensions;
  for (const Dimension& d : shape) {
    if (generator() % 2 == 0) dimensions.push_back(d);
  }
  std::shuffle(dimensions.begin(), dimensions.end(), generator);
  return Shape(dimensions);
}

TEST(EinsumPlan, GivesTheDefinitionForRandomContractions) {
  std::mt19937 generator(1);
  for (int trial = 0; trial < 1500; ++trial) {
    Einsum einsum = trial % 3 == 0 ? random_einsum(generator, 4, 2) : random_einsum(generator, 2, 5);
    if (trial % 2 == 0) einsum.input = DType::kBFloat16;
    if (trial % 4 == 0) einsum.output = DType::kBFloat16;
    if (trial % 7 < 3) einsum.bias = some_of(einsum.out, generator);
    constexpr LibraryUse kUses[] = {LibraryUse::kFinishes, LibraryUse::kPlain, LibraryUse::kAligned};
    expect_right(einsum, trial % 5 == 0, kUses[trial % 11 % 3]);
    if (::testing::Test::HasFailure()) return;
  }
}

const Dimension batch{"batch", 16}, length{"length", 512}, model{"d_model", 1024}, hidden{"d_ff", 4096},
    heads{"heads", 16}, key{"d_kv", 64}, memory{"memory_length", 512}, experts{"experts", 8},
    group{"group", 16}, capacity{"capacity", 64};

void expect_one_product(const Einsum& einsum, int64_t m, int64_t n, int64_t k, int64_t products = 1) {
  SCOPED_TRACE(einsum.a.to_string() + " " + einsum.b.to_string() + " -> " + einsum.out.to_string());
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Einsum typed = einsum;
    typed.input = typed.output = dtype;
    const EinsumPlan plan = plan_einsum(typed.contraction());
    EXPECT_FALSE(packs(plan));
    EXPECT_EQ(calls(plan), 1);
    EXPECT_EQ(plan.problem.m, m);
    EXPECT_EQ(plan.problem.n, n);
    EXPECT_EQ(plan.problem.k, k);
    EXPECT_EQ(plan.problem.batch, products);
  }
}

TEST(EinsumPlan, MakesOneProductOfADenseLayerAndItsGradients) {
  const Shape x{batch, length, model}, kernel{model, hidden}, y{batch, length, hidden};
  expect_one_product({x, kernel, y}, 16 * 512, 4096, 1024);
  expect_one_product({y, kernel, x}, 16 * 512, 1024, 4096);
  expect_one_product({y, x, kernel}, 1024, 4096, 16 * 512);
  const Shape apart{model, heads, key}, q{batch, length, heads, key};
  expect_one_product({x, apart, q}, 16 * 512, 1024, 1024);
  expect_one_product({q, apart, x}, 16 * 512, 1024, 1024);
  expect_one_product({x, q, apart}, 1024, 1024, 16 * 512);
}

TEST(EinsumPlan, TakesBatchDimensionsAsTheyLie) {
  // The heads of each example are interleaved: one of the two dimensions is the batch of a call, the other a
  // loop.
  const Einsum logits{
      {batch, length, heads, key}, {batch, memory, heads, key}, {batch, heads, length, memory}};
  const EinsumPlan plan = plan_einsum(logits.contraction());
  EXPECT_FALSE(packs(plan));
  EXPECT_EQ(calls(plan), 16);
  EXPECT_EQ(plan.problem.batch, 16);
  EXPECT_EQ(plan.problem.row_a, 16 * 64);
  EXPECT_TRUE(plan.problem.transpose_b);
  expect_one_product(
      {{experts, group, capacity, model}, {experts, model, hidden}, {experts, group, capacity, hidden}},
      16 * 64, 4096, 1024, 8);
}

TEST(EinsumPlan, MakesTheProductTransposedWhereTheOutputIs) {
  const EinsumPlan plan =
      plan_einsum(Einsum{{length, model}, {model, hidden}, {hidden, length}}.contraction());
  EXPECT_TRUE(plan.swapped);
  EXPECT_FALSE(packs(plan));
  EXPECT_EQ(plan.problem.m, 4096);
  EXPECT_EQ(plan.problem.n, 512);
  EXPECT_TRUE(plan.problem.transpose_a);
  EXPECT_TRUE(plan.problem.transpose_b);
}

TEST(EinsumPlan, CopiesWhatIsNoMatrixOrTakesManyCalls) {
  const Dimension two{"two", 2}, many{"many", 300};
  const EinsumPlan no_matrix =
      plan_einsum(Einsum{{length, model, two}, {two, model, hidden}, {two, length, hidden}}.contraction());
  EXPECT_TRUE(no_matrix.packed[kA]);
  EXPECT_FALSE(no_matrix.packed[kB]);
  EXPECT_EQ(calls(no_matrix), 1);
  const EinsumPlan many_calls =
      plan_einsum(Einsum{{length, many, key}, {key, many, memory}, {length, memory}}.contraction());
  EXPECT_TRUE(packs(many_calls));
  EXPECT_EQ(calls(many_calls), 1);
}

TEST(EinsumPlan, KeepsSumsOverSeveralCallsInFloat32) {
  // b has the summed dimensions in another order, so the first of them is summed over calls.
  const Dimension outer{"outer", 2}, inner{"inner", 4096};
  Einsum einsum{{length, outer, inner}, {inner, outer, hidden}, {length, hidden}};
  const EinsumPlan added = plan_einsum(einsum.contraction());
  EXPECT_EQ(size_of(added.sums), 2);
  EXPECT_FALSE(packs(added));
  einsum.input = einsum.output = DType::kBFloat16;
  const EinsumPlan narrowed = plan_einsum(einsum.contraction());
  if (!narrowed.sums.empty()) {
    EXPECT_EQ(narrowed.problem.output, DType::kFloat32);
    EXPECT_TRUE(narrowed.packed[kOut]);
  }
}

TEST(EinsumPlan, LeavesABiasOfTheColumnsToTheLibrary) {
  const auto plan = [](const Shape& a, const Shape& b, const Shape& out, const Shape& bias) {
    return plan_einsum(Einsum{a, b, out, DType::kBFloat16, DType::kBFloat16, bias}.contraction());
  };
  const Shape x{batch, length, model}, y{batch, length, hidden};
  const EinsumPlan dense = plan(x, {model, hidden}, y, {hidden});
  EXPECT_FALSE(packs(dense));
  EXPECT_TRUE(dense.problem.bias);
  EXPECT_EQ(dense.problem.epilogue, Epilogue::kGelu);
  // Its gelu is accurate enough for bfloat16 only.
  const EinsumPlan exact = plan_einsum(
      Einsum{x, {model, hidden}, y, DType::kFloat32, DType::kFloat32, Shape{hidden}}.contraction());
  EXPECT_TRUE(exact.packed[kOut]);
  EXPECT_FALSE(exact.problem.bias);
  EXPECT_FALSE(packs(plan(x, {model, heads, key}, {batch, length, heads, key}, {heads, key})));
  for (const Shape& bias : {Shape{batch, length}, Shape{length, hidden}}) {
    const EinsumPlan copied = plan(x, {model, hidden}, y, bias);
    EXPECT_TRUE(copied.packed[kOut]);
    EXPECT_FALSE(copied.problem.bias);
  }
}

TEST(EinsumPlan, CopiesWhatMakesUnalignedCallsIfThatPays) {
  const Dimension odd{"odd", 1001}, few{"few", 8};
  const auto plan = [](const Shape& a, const Shape& b, const Shape& out, DType dtype) {
    return plan_einsum(Einsum{a, b, out, dtype, dtype}.contraction());
  };
  // Rows of 1,001 bfloat16 begin at multiples of 2 bytes.
  const EinsumPlan large =
      plan({batch, length, odd}, {odd, hidden}, {batch, length, hidden}, DType::kBFloat16);
  EXPECT_TRUE(large.packed[kA]);
  EXPECT_EQ(large.problem.row_a, 1008);
  EXPECT_EQ(large.packed[kA]->elements, 16 * 512 * 1008);
  EXPECT_GE(large.problem.alignment_a, 16);
  EXPECT_FALSE(packs(plan({few, odd}, {odd, few, {"other", 2}}, {few, {"other", 2}}, DType::kBFloat16)));
  EXPECT_FALSE(packs(plan({batch, length, odd}, {odd, hidden}, {batch, length, hidden}, DType::kFloat32)));
}

TEST(EinsumPlan, AlignsEachOperandByItself) {
  Einsum einsum{{length, model}, {model, hidden}, {length, hidden}};
  einsum.input = DType::kBFloat16;
  Contraction contraction = einsum.contraction();
  contraction.alignment = {2, 64, 4};
  const MatmulProblem& problem = plan_einsum(contraction).problem;
  EXPECT_EQ(problem.alignment_b, 64);
  EXPECT_EQ(problem.alignment_c, 4);
}

TEST(EinsumPlan, HandlesVectorsAndNumbers) {
  expect_right({{length}, {length}, {}});
  expect_right({{key, length}, {length}, {key}});
  expect_right({{length}, {length, key}, {key}});
  expect_right({{length, key}, {length}, {key}});
  expect_right({{{"one", 1}, key}, {heads, {"one", 1}}, {key, heads}});
  expect_right({{{"one", 1}, key}, {heads, {"one", 1}}, {heads, key}});
  expect_right({{heads, key, length}, {length, heads}, {key, heads}});
}

}  // namespace
}  // namespace mtf::cuda
