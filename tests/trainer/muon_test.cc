// Muon against its formulas, written here with Eigen in double precision, and its steps against orthogonal matrices.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <Eigen/SVD>
#include <cmath>

#include "tests/trainer/update_run.h"

namespace mtf::testing {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

RowMajor matrix_of(const Values& values, int64_t rows) {
  return Eigen::Map<const RowMajor>(values.data(), rows, static_cast<int64_t>(values.size()) / rows);
}

RowMajor newton_schulz(const RowMajor& m) {
  if (m.rows() > m.cols()) return newton_schulz(m.transpose()).transpose();
  RowMajor x = m / m.norm();
  for (int i = 0; i < 5; ++i) {
    const RowMajor a = x * x.transpose();
    x = 3.4445 * x + (-4.7750 * a + 2.0315 * a * a) * x;
  }
  return x;
}

/// Two steps on a weight of zeros whose first `rows` entries of the matrix are its rows.
void expect_formula(const Shape& shape, int64_t rows, const Layouts& layouts) {
  SCOPED_TRACE(shape.to_string());
  UpdateRun run({{"w", {shape, DType::kFloat32, Values(static_cast<size_t>(shape.size()))}}},
                update_options("{type: muon, weight_decay: 0.5}", "0.1"));
  const int64_t columns = shape.size() / rows;
  RowMajor w = RowMajor::Zero(rows, columns), m = w;
  for (int64_t step = 0; step < 2; ++step) {
    const Values gradient = random_values(shape.size(), 7 + static_cast<unsigned>(step));
    run.step(step, {{"w", gradient}}, layouts);
    m = 0.95 * m + matrix_of(gradient, rows);
    const double length = 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
    w -= 0.1 * (length * newton_schulz(matrix_of(gradient, rows) + 0.95 * m) + 0.5 * w);
    expect_close(fmt::format("step {}", step), run.variables().at("w"), Values(w.data(), w.data() + w.size()),
                 1e-4);
  }
}

TEST(Muon, FollowsItsFormulaOnEveryLayout) {
  const std::vector<Layouts> all = {Layouts::single(),
                                    layouts("x:2", "a:x"),
                                    layouts("x:2", "b:x"),
                                    layouts("x:2;y:2", "a:x;b:y"),
                                    layouts("x:2;y:2", "", "", "a:x;b:y"),
                                    layouts("x:8", "", "", "b:x"),
                                    layouts("x:2;y:4", "", "a:x", "b:y")};
  for (const Layouts& layout : all) {
    SCOPED_TRACE(fmt::format("layout {}", &layout - all.data()));
    expect_formula({{"a", 4}, {"b", 8}}, 4, layout);
    expect_formula({{"b", 16}, {"a", 4}}, 16, layout);
    expect_formula({{"a", 8}, {"b", 8}}, 8, layout);
    // [d_model, heads, d_kv], [heads, d_kv, d_model], and the kernel of a convolution
    expect_formula({{"a", 12}, {"b", 8}, {"c", 3}}, 12, layout);
    expect_formula({{"c", 3}, {"b", 8}, {"a", 20}}, 24, layout);
    expect_formula({{"y", 3}, {"x", 3}, {"a", 8}, {"b", 16}}, 72, layout);
  }
}

TEST(Muon, StepsAreNearlyOrthogonal) {
  const Shape shape{{"a", 12}, {"b", 30}};
  UpdateRun run({{"w", {shape, DType::kFloat32, Values(360)}}},
                update_options("{type: muon, weight_decay: 0, update_rms: 1}", "1"));
  run.step(0, {{"w", random_values(360, 3)}}, Layouts::single());
  const RowMajor step = matrix_of(run.variables().at("w"), 12) / std::sqrt(30.0);
  const Eigen::VectorXd singular = Eigen::JacobiSVD<RowMajor>(step).singularValues();
  EXPECT_LT(singular.maxCoeff(), 1.25);
  EXPECT_GT(singular.minCoeff(), 0.65);
}

TEST(Muon, StacksOfMatricesAreIndependent) {
  const Shape one{{"a", 4}, {"b", 6}}, two{{"experts", 2}, {"a", 4}, {"b", 6}};
  const Values first = random_values(24, 5), second = random_values(24, 6);
  Values both = first, expected;
  both.insert(both.end(), second.begin(), second.end());
  const UpdateOptions options = update_options("muon", "0.1");
  for (const Values& gradient : {first, second}) {
    UpdateRun run({{"w", {one, DType::kFloat32, Values(24)}}}, options);
    run.step(0, {{"w", gradient}}, Layouts::single());
    const Values& w = run.variables().at("w");
    expected.insert(expected.end(), w.begin(), w.end());
  }
  for (const Layouts& layout : {Layouts::single(), layouts("x:2", "experts:x")}) {
    UpdateRun run({{"w", {two, DType::kFloat32, Values(48)}}}, options);
    run.step(0, {{"w", both}}, layout);
    expect_close("stack", run.variables().at("w"), expected, 1e-5);
  }
}

TEST(Muon, VectorsAndNamedWeightsFollowAdamW) {
  const Shape vector{{"a", 6}}, matrix{{"a", 3}, {"b", 2}};
  const Values gradient = random_values(6, 9);
  const auto after_two_steps = [&](const std::string& optimizer, const std::string& name,
                                   const Shape& shape) {
    UpdateRun run({{name, {shape, DType::kFloat32, Values(6, 1)}}}, update_options(optimizer, "0.1"));
    for (int64_t step = 0; step < 2; ++step) run.step(step, {{name, gradient}}, Layouts::single());
    return run.variables().at(name);
  };
  const std::string adam = "{type: adamw, beta2: 0.95, weight_decay: 0.1}";
  EXPECT_EQ(after_two_steps("muon", "w", vector), after_two_steps(adam, "w", vector));
  EXPECT_EQ(after_two_steps("muon", "embedding", matrix), after_two_steps(adam, "embedding", matrix));
  EXPECT_NE(after_two_steps("muon", "w", matrix), after_two_steps(adam, "w", matrix));
}

}  // namespace
}  // namespace mtf::testing
