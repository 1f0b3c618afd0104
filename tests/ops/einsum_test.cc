#include "engine/ops/einsum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Core>
#include <numeric>
#include <random>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/base/error.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/failure.h"
#include "tests/support/golden.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

const Dimension i{"i", 4}, j{"j", 6}, k{"k", 8}, m{"m", 3}, b{"b", 2};

Values random_values(int64_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Values values(n);
  for (double& v : values) v = uniform(generator);
  return values;
}

/// Returns the strides of `shape` along the dimensions of `all`; 0 for those that it lacks.
std::vector<int64_t> strides_along(const Shape& all, const Shape& shape) {
  std::vector<int64_t> strides(all.rank());
  for (int axis = 0; axis < shape.rank(); ++axis)
    strides[*all.find(shape[axis].name)] = shape.strides()[axis];
  return strides;
}

/// Computes the definition by a loop over all combinations of all dimensions.
Values naive_einsum(const std::vector<Shape>& shapes, const std::vector<Values>& inputs,
                    const Shape& output) {
  Shape all;
  for (const Shape& shape : shapes) all = all + shape;
  all = all + output;
  std::vector<std::vector<int64_t>> strides;
  for (const Shape& shape : shapes) strides.push_back(strides_along(all, shape));
  strides.push_back(strides_along(all, output));
  Values result(output.size());
  std::vector<int64_t> index(all.rank());
  for (int64_t entry = 0; entry < all.size(); ++entry) {
    int64_t rest = entry;
    for (int axis = all.rank(); axis-- > 0; rest /= all[axis].size) index[axis] = rest % all[axis].size;
    const auto offset = [&](size_t n) {
      return std::inner_product(index.begin(), index.end(), strides[n].begin(), int64_t{0});
    };
    double product = 1;
    for (size_t n = 0; n < shapes.size(); ++n) product *= inputs[n][offset(n)];
    result[offset(shapes.size())] += product;
  }
  return result;
}

void expect_einsum(const std::vector<Shape>& shapes, const Shape& output, DType dtype, double tolerance,
                   unsigned seed) {
  Graph graph;
  Tensors inputs;
  std::vector<Values> values;
  std::map<std::string, Values> feeds;
  std::string what;
  for (size_t n = 0; n < shapes.size(); ++n) {
    const std::string name = "x" + std::to_string(n);
    inputs.push_back(graph.input(name, shapes[n], dtype));
    values.push_back(random_values(shapes[n].size(), seed + static_cast<unsigned>(n)));
    feeds[name] = values.back();
    what += shapes[n].to_string() + " ";
  }
  const Tensor y = einsum(inputs, output);
  EXPECT_EQ(y.shape(), output);
  expect_close(what + "-> " + output.to_string() + " " + std::string(name_of(dtype)),
               evaluate(graph, {y}, feeds)[0], naive_einsum(shapes, values, output), tolerance);
}

Shape random_shape(const std::vector<Dimension>& dimensions, double probability, std::mt19937& generator) {
  std::vector<Dimension> chosen;
  for (const Dimension& d : dimensions) {
    if (std::uniform_real_distribution<>(0, 1)(generator) < probability) chosen.push_back(d);
  }
  std::shuffle(chosen.begin(), chosen.end(), generator);
  return Shape(chosen);
}

TEST(Einsum, HasTheRecordedValuesAndGradients) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_einsum");
  Graph graph;
  const auto in = [&](const char* name) { return golden.input(graph, name); };
  const Tensor a = in("a"), b = in("b"), c = in("c"), q = in("q"), k = in("k"), u = in("u"), w = in("w");
  const Dimension i = a.shape()[0], kk = b.shape()[1], bb = c.shape()[1];
  const Shape& s = q.shape();
  golden.expect(graph, {{"matmul", einsum({a, b}, {i, kk})},
                        {"matmul_transposed_out", einsum({a, b}, {kk, i})},
                        {"attention_logits", einsum({q, k}, {s[0], s[1], s[2], k.shape()[2]})},
                        {"outer", einsum({u, w}, {i, w.shape()[0]})},
                        {"three", einsum({a, b, c}, {i, bb})},
                        {"full_reduce", einsum({a, b}, Shape{})},
                        {"batched_diag", einsum({q, q}, {s[0], s[2]})}});
}

TEST(Einsum, AgreesWithTheDefinitionForRandomShapesAndOrders) {
  std::mt19937 generator(1);
  for (unsigned trial = 0; trial < 600; ++trial) {
    std::vector<Dimension> dimensions;
    for (const char* name : {"a", "b", "c", "d", "e"}) {
      dimensions.push_back({name, std::uniform_int_distribution<int64_t>(1, 6)(generator)});
    }
    std::vector<Shape> shapes;
    const int inputs = std::uniform_int_distribution<int>(1, 3)(generator);
    for (int n = 0; n < inputs; ++n) shapes.push_back(random_shape(dimensions, 0.6, generator));
    const Shape output = random_shape(dimensions, 0.4, generator);
    const DType dtype = trial % 3 == 0 ? DType::kFloat64 : DType::kFloat32;
    expect_einsum(shapes, output, dtype, dtype == DType::kFloat64 ? 1e-13 : 3e-6, trial);
  }
}

TEST(Einsum, AgreesWithTheDefinitionForLargerProducts) {
  std::mt19937 generator(2);
  for (unsigned trial = 0; trial < 40; ++trial) {
    const auto size = [&](int64_t most) {
      return std::uniform_int_distribution<int64_t>(1, most)(generator);
    };
    const std::vector<Dimension> batch{{"batch", size(3)}}, rows{{"r", size(5)}, {"row", size(30)}},
        columns{{"column", size(50)}, {"c", size(4)}}, summed{{"s", size(3)}, {"sum", size(30)}};
    const auto shuffled = [&](std::vector<std::vector<Dimension>> groups) {
      std::vector<Dimension> all;
      for (const auto& group : groups) all.insert(all.end(), group.begin(), group.end());
      std::shuffle(all.begin(), all.end(), generator);
      return Shape(all);
    };
    const std::vector<Shape> shapes{shuffled({batch, rows, summed}), shuffled({batch, columns, summed})};
    expect_einsum(shapes, shuffled({batch, rows, columns}), DType::kFloat32, 3e-6, trial);
    expect_einsum(shapes, shuffled({batch, rows, columns}), DType::kBFloat16, 2e-2, trial);
  }
}

using EigenMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic>;

/// Returns the matrix of entry `batch` (its row-major index) of a tensor, whose rows and columns are the row-major
/// indices of the dimensions `rows` and `columns`.
EigenMatrix matrix_of(const Shape& shape, const Values& values, const Shape& batches, int64_t batch,
                      const Shape& rows, const Shape& columns) {
  const auto offset = [&shape](const Shape& dimensions, int64_t index) {
    int64_t result = 0;
    for (int axis = dimensions.rank(); axis-- > 0; index /= dimensions[axis].size) {
      result += index % dimensions[axis].size * shape.strides()[*shape.find(dimensions[axis].name)];
    }
    return result;
  };
  EigenMatrix matrix(rows.size(), columns.size());
  for (int64_t r = 0; r < rows.size(); ++r) {
    for (int64_t c = 0; c < columns.size(); ++c) {
      matrix(r, c) = values[offset(batches, batch) + offset(rows, r) + offset(columns, c)];
    }
  }
  return matrix;
}

TEST(Einsum, GivesTheMatrixProductsOfEigen) {
  std::mt19937 generator(3);
  for (unsigned trial = 0; trial < 200; ++trial) {
    const auto random_group = [&](const std::string& name, int least, int most, int64_t largest) {
      std::vector<Dimension> dimensions;
      const int count = std::uniform_int_distribution<int>(least, most)(generator);
      for (int n = 0; n < count; ++n) {
        dimensions.push_back(
            {name + std::to_string(n), std::uniform_int_distribution<int64_t>(1, largest)(generator)});
      }
      return Shape(dimensions);
    };
    const auto shuffled = [&](const Shape& shape) {
      std::vector<Dimension> dimensions = shape.dimensions();
      std::shuffle(dimensions.begin(), dimensions.end(), generator);
      return Shape(dimensions);
    };
    const Shape batches = random_group("batch", 0, 2, 3), rows = random_group("row", 0, 2, 9),
                columns = random_group("column", 0, 2, 9), summed = random_group("sum", 1, 3, 6);
    const Shape a = shuffled(batches + rows + summed), b = shuffled(batches + summed + columns),
                y = shuffled(batches + rows + columns);
    const Values as = random_values(a.size(), 2 * trial), bs = random_values(b.size(), 2 * trial + 1);
    for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
      Graph graph;
      const Tensor product = einsum({graph.input("a", a, dtype), graph.input("b", b, dtype)}, y);
      const Values ys = evaluate(graph, {product}, {{"a", as}, {"b", bs}})[0];
      for (int64_t batch = 0; batch < batches.size(); ++batch) {
        const EigenMatrix left = matrix_of(a, as, batches, batch, rows, summed);
        const EigenMatrix right = matrix_of(b, bs, batches, batch, summed, columns);
        const EigenMatrix expected = left * right, actual = matrix_of(y, ys, batches, batch, rows, columns);
        // A sum's rounding errors are relative to the sum of the products' magnitudes.
        const EigenMatrix scale = left.cwiseAbs() * right.cwiseAbs();
        const double epsilon = dtype == DType::kFloat64 ? 0x1p-52 : 0x1p-23;
        const double errors =
            ((actual - expected).cwiseAbs().array() - 8 * epsilon * scale.array()).maxCoeff();
        ASSERT_LE(errors, 0) << a.to_string() << " " << b.to_string() << " -> " << y.to_string() << " "
                             << name_of(dtype);
      }
    }
  }
}

TEST(Einsum, CutsLargeProducts) {
  expect_einsum({{{"r", 50}, {"s", 310}}, {{"s", 310}, {"c", 1100}}}, {{"r", 50}, {"c", 1100}},
                DType::kFloat32, 3e-6, 1);
  expect_einsum({{{"s", 310}, {"r", 50}}, {{"c", 1100}, {"s", 310}}}, {{"r", 50}, {"c", 1100}},
                DType::kBFloat16, 2e-2, 2);
}

// 64 columns and 28 rows are the least that a task has.
TEST(Einsum, CutsSmallResultsOfLongSums) {
  const Dimension sum{"s", 2100};
  for (const auto& [rows, columns] : {std::pair{34, 150}, {70, 60}}) {
    const Dimension r{"r", rows}, c{"c", columns};
    expect_einsum({{r, sum}, {sum, c}}, {r, c}, DType::kFloat32, 6e-6, 1);
    expect_einsum({{r, sum}, {sum, c}}, {c, r}, DType::kFloat32, 6e-6, 2);
  }
}

TEST(Einsum, CarriesTheGraphsPrecisionAndSoDoesItsGradient) {
  Graph graph;
  const Tensor x = graph.input("x", {i, j}), w = graph.input("w", {j, k});
  const auto attributes = [](const Tensor& y) { return y.operation().attributes(); };
  EXPECT_EQ(attributes(einsum({x, w}, {i, k})), "");
  const Tensor dy = graph.input("dy", {i, k}), u = graph.input("u", {i, j}, DType::kBFloat16),
               v = graph.input("v", {j, k}, DType::kBFloat16);
  for (const auto& [precision, of_float32, of_bfloat16] :
       {std::tuple(MatmulPrecision::kTf32, "tf32", ""), {MatmulPrecision::kBFloat16, "bf16", "bf16"}}) {
    graph.set_matmul_precision(precision);
    const Tensor y = einsum({x, w}, {i, k});
    EXPECT_EQ(attributes(y), of_float32);
    EXPECT_EQ(attributes(y.operation().gradient({dy})[0]), of_float32);
    EXPECT_EQ(attributes(einsum({u, v}, {i, k})), of_bfloat16);
  }
}

TEST(Einsum, SumsDimensionsThatTwoInputsHaveByDefault) {
  Graph graph;
  const Tensor x = graph.input("x", {i, j}), y = graph.input("y", {j, k});
  EXPECT_EQ(einsum({x, y}).shape(), (Shape{i, k}));
  EXPECT_EQ(matmul(x, y).shape(), (Shape{i, k}));
  EXPECT_EQ(einsum_over({x, y}, {i}).shape(), (Shape{j, k}));
  EXPECT_EQ(einsum({x, y}, {k, i}, Shape{j}).shape(), (Shape{k, i}));
  EXPECT_EQ(einsum({x, y}, {m, i}).shape(), (Shape{m, i})) << "a new dimension is broadcast";
}

TEST(Einsum, ContractsIntegersByMultiplyingAndAdding) {
  Graph graph;
  const Tensor x = graph.input("x", {b, m}, DType::kInt32), y = graph.input("y", {m}, DType::kInt32);
  EXPECT_EQ(evaluate(graph, {einsum({x, y}, {b})}, {{"x", {1, 2, 3, 4, 5, 6}}, {"y", {7, 8, 9}}})[0],
            (Values{50, 122}));
}

TEST(Einsum, ReportsWhatDoesNotFit) {
  Graph graph;
  const Tensor x = graph.input("x", {i, j}), y = graph.input("y", {Dimension{"j", 5}, k});
  const Tensor half = graph.input("half", {j, k}, DType::kBFloat16);
  EXPECT_THAT(failure([&] { einsum({x, y}, {i, k}); }), HasSubstr("dimension `j` has sizes 6 and 5"));
  EXPECT_THAT(failure([&] { einsum({x, half}, {i, k}); }), HasSubstr("float32 and bfloat16"));
  EXPECT_THAT(failure([&] {
                einsum({x}, {Dimension{"i", 9}});
              }),
              HasSubstr("dimension `i` has sizes 4 and 9"));
  EXPECT_THAT(failure([&] { einsum({}, {i}); }), HasSubstr("no inputs"));
  EXPECT_THAT(failure([&] { einsum_over({x}, {k}); }), HasSubstr("no input has the summed dimension k=8"));
  EXPECT_THAT(failure([&] { einsum({x, x}, {i}, {i}); }), HasSubstr("sums [j=6], not [i=4]"));
}

TEST(Einsum, CountsTheFlopsThatItDoes) {
  Graph graph;
  const Tensor y = einsum({graph.input("x", {b, i, j}), graph.input("w", {k, j, b})}, {k, b, i});
  const Operation& operation = y.operation();
  EXPECT_EQ(operation.cost({{b, i, j}, {k, j, b}}, {{k, b, i}}).flops, 2 * 2 * 4 * 6 * 8);
  KernelContext context{operation, {}, {}};
  const auto local = [](const Shape& shape) {
    return LocalTensor{shape, shape, shape.strides(), DType::kFloat32};
  };
  context.inputs = {local({b, i, j}), local({k, j, b})};
  context.outputs = {local({k, b, i})};
  std::vector<float> x(48), w(96), out(64);
  const std::unique_ptr<Kernel> kernel = prepare_cpu_kernel(context);
  alignas(64) std::byte scratch[1 << 14];
  ASSERT_LE(kernel->scratch_bytes(), sizeof scratch);
  const std::vector<Slice> in{{reinterpret_cast<std::byte*>(x.data())},
                              {reinterpret_cast<std::byte*>(w.data())}},
      result{{reinterpret_cast<std::byte*>(out.data())}};
  EXPECT_EQ(kernel->run({in, result, scratch}, 0, kernel->tasks()), 2 * 2 * 4 * 6 * 8);
}

class EinsumSharding : public ::testing::Test {
 protected:
  ShardingRule rule_for(const LayoutRules& rules, AxisMask partial_x, AxisMask partial_w) {
    const LayoutMap map(mesh_, rules);
    ShardingRequest request{map, {map.of(x_.shape()), map.of(w_.shape())}};
    request.inputs[0].partial = partial_x;
    request.inputs[1].partial = partial_w;
    return y_.operation().sharding_rule(request);
  }

  const Mesh mesh_{Shape::parse("rows:2;cols:2")};
  Graph graph_;
  Tensor x_ = graph_.input("x", {i, k}), w_ = graph_.input("w", {k, b}), y_ = einsum({x_, w_}, {i, b});
};

TEST_F(EinsumSharding, LeavesAPartialSumWhereASummedDimensionIsSplit) {
  const ShardingRule rule = rule_for(LayoutRules::parse("k:cols;i:rows"), 0, 0);
  EXPECT_EQ(rule.outputs[0].partial, axis_bit(1));
  EXPECT_EQ(rule.outputs[0].split[0], std::vector<int>{0});
  EXPECT_EQ(rule.inputs[1].split[0], std::vector<int>{1});
}

TEST_F(EinsumSharding, PassesAPartialSumOfTheLargerInput) {
  EXPECT_EQ(rule_for({}, axis_bit(0), 0).outputs[0].partial, axis_bit(0)) << "[i, k] is larger than [i, b]";
  EXPECT_EQ(rule_for({}, axis_bit(0), axis_bit(1)).outputs[0].partial, axis_bit(0) | axis_bit(1));
  EXPECT_EQ(rule_for({}, axis_bit(0), axis_bit(0)).outputs[0].partial, 0u)
      << "a product of sums is no sum of products";
  EXPECT_EQ(rule_for(LayoutRules::parse("b:rows"), axis_bit(0), 0).outputs[0].partial, 0u)
      << "w varies over rows";
}

}  // namespace
}  // namespace mtf::testing
