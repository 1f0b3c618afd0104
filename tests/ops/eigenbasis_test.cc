#include "engine/ops/eigenbasis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <limits>
#include <random>

#include "tests/support/evaluate_tensors.h"

namespace mtf::testing {
namespace {

using Square = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Square random_square(int64_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  return Square::NullaryExpr(n, n,
                             [&] { return static_cast<double>(static_cast<float>(normal(generator))); });
}

/// Symmetric, with eigenvalues 1, 1/2, 1/4, ..., of which the last n - rank are zero.
Square symmetric_square(int64_t n, int64_t rank, unsigned seed) {
  const Square q = Eigen::HouseholderQR<Square>(random_square(n, seed)).householderQ();
  Eigen::VectorXd values = Eigen::VectorXd::Zero(n);
  for (int64_t k = 0; k < rank; ++k) values[k] = std::ldexp(1.0, static_cast<int>(-k));
  return q * values.asDiagonal() * q.transpose();
}

Square refreshed(const Square& x, const Square& basis, double due, DType dtype = DType::kFloat32) {
  Graph graph;
  const Shape shape{{"row", x.rows()}, {"column", x.rows()}};
  const Tensor y = eigenbasis(graph.input("x", shape, dtype), graph.input("basis", shape, dtype),
                              graph.input("due", {}, dtype), "row", "column");
  const auto values = [](const Square& m) { return Values(m.data(), m.data() + m.size()); };
  const Values result = evaluate(graph, {y}, {{"x", values(x)}, {"basis", values(basis)}, {"due", {due}}})[0];
  return Eigen::Map<const Square>(result.data(), x.rows(), x.rows());
}

double orthonormality(const Square& q) {
  return (q.transpose() * q - Square::Identity(q.rows(), q.rows())).cwiseAbs().maxCoeff();
}

TEST(Eigenbasis, BeginsWithTheEigenvectorsFromTheLargestValueDown) {
  for (const int64_t n : {1, 2, 5, 12, 60}) {
    const Square x = symmetric_square(n, std::min<int64_t>(n, 12), 1);
    const Square q = refreshed(x, Square::Zero(n, n), 0, DType::kFloat64);
    EXPECT_LE(orthonormality(q), 1e-12);
    const Square turned = q.transpose() * x * q;
    EXPECT_LE((turned - Square(turned.diagonal().asDiagonal())).cwiseAbs().maxCoeff(), 1e-12) << n;
    for (int64_t k = 0; k < n; ++k) {
      EXPECT_NEAR(turned(k, k), k < 12 ? std::ldexp(1.0, static_cast<int>(-k)) : 0, 1e-12);
      Eigen::Index largest = 0;
      q.col(k).cwiseAbs().maxCoeff(&largest);
      EXPECT_GT(q(largest, k), 0);
    }
  }
}

/// Without this rule rounding errors would choose the vectors, and layouts would differ.
TEST(Eigenbasis, RoundingErrorsChooseNoVectors) {
  const int64_t n = 10;
  const Square x = symmetric_square(n, 4, 2);
  const Square noise = 3e-9 * (random_square(n, 3) + random_square(n, 3).transpose());
  const Square first = refreshed(x, Square::Zero(n, n), 0),
               other = refreshed(x + noise, Square::Zero(n, n), 0);
  EXPECT_LE((first - other).cwiseAbs().maxCoeff(), 1e-5);
  EXPECT_LE(orthonormality(first), 1e-6);
  EXPECT_LE((refreshed(x, first, 1) - refreshed(x + noise, first, 1)).cwiseAbs().maxCoeff(), 0.2);
}

TEST(Eigenbasis, IteratesWhenItIsDue) {
  for (const int64_t n : {3, 17, 70}) {
    const Square x = random_square(n, 4) * random_square(n, 4).transpose();
    const Square before = Eigen::HouseholderQR<Square>(random_square(n, 5)).householderQ();
    const Square after = refreshed(x, before, 1, DType::kFloat64);
    EXPECT_LE(orthonormality(after), 1e-12);
    const Square product = x * before + kSpectrumNoise * x.norm() * before, r = after.transpose() * product;
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_GT(r(i, i), 0);
      for (int64_t j = 0; j < i; ++j) EXPECT_NEAR(r(i, j), 0, 1e-9 * x.norm());
    }
    EXPECT_LE((refreshed(x, before, 1) - after).cwiseAbs().maxCoeff(), 1e-3);
    EXPECT_EQ(refreshed(x, before, 0, DType::kFloat64), before);
  }
  // Iteration converges to the eigenvectors.
  const Square x = symmetric_square(6, 6, 6),
               eigenvectors = refreshed(x, Square::Zero(6, 6), 0, DType::kFloat64);
  Square q = Square::Identity(6, 6);
  for (int step = 0; step < 60; ++step) q = refreshed(x, q, 1, DType::kFloat64);
  EXPECT_LE(((q.transpose() * eigenvectors).cwiseAbs() - Square::Identity(6, 6)).cwiseAbs().maxCoeff(), 1e-6);
}

TEST(Eigenbasis, PassesTheBasisOnWhereTheMatrixSaysNothing) {
  const Square basis = Eigen::HouseholderQR<Square>(random_square(3, 7)).householderQ(),
               zero = Square::Zero(3, 3);
  EXPECT_EQ(refreshed(zero, zero, 1), zero);
  EXPECT_EQ(refreshed(zero, basis, 1, DType::kFloat64), basis);
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    Square x = Square::Identity(3, 3);
    x(1, 0) = bad;
    EXPECT_EQ(refreshed(x, basis, 1, DType::kFloat64), basis);
    EXPECT_EQ(refreshed(x, zero, 1), zero);
  }
}

TEST(Eigenbasis, DimensionsMayHaveAnyOrder) {
  const Dimension batch{"batch", 2}, row{"row", 3}, column{"column", 3};
  Graph graph;
  const Tensor x = graph.input("x", {column, batch, row}), basis = graph.input("basis", {column, batch, row});
  const Tensor y = eigenbasis(x, basis, graph.input("due", {}), row, column);
  Values xs(18), bases(18);
  Square matrices[2];
  for (int64_t b = 0; b < 2; ++b) {
    matrices[b] = symmetric_square(3, 3, 8 + static_cast<unsigned>(b));
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t c = 0; c < 3; ++c) xs[(c * 2 + b) * 3 + r] = matrices[b](r, c);
    }
  }
  const Values ys = evaluate(graph, {y}, {{"x", xs}, {"basis", bases}, {"due", {0}}})[0];
  for (int64_t b = 0; b < 2; ++b) {
    const Square expected = refreshed(matrices[b], Square::Zero(3, 3), 0);
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t c = 0; c < 3; ++c) EXPECT_NEAR(ys[(c * 2 + b) * 3 + r], expected(r, c), 1e-6);
    }
  }
}

TEST(Eigenbasis, ReportsWhatDoesNotFit) {
  Graph graph;
  const Dimension r{"r", 3}, c{"c", 3}, longer{"c", 4};
  const Tensor x = graph.input("x", {r, c}), due = graph.input("due", {});
  EXPECT_THROW(eigenbasis(graph.input("u", {r, longer}), graph.input("v", {r, longer}), due, "r", "c"),
               Error);
  EXPECT_THROW(eigenbasis(x, x, due, "r", "r"), Error);
  EXPECT_THROW(eigenbasis(x, graph.input("w", {c, r}), due, "r", "c"), Error);
  EXPECT_THROW(eigenbasis(x, x, graph.input("many", {r}), "r", "c"), Error);
  const Tensor half = graph.input("half", {r, c}, DType::kBFloat16);
  EXPECT_THROW(eigenbasis(half, half, graph.input("d", {}, DType::kBFloat16), "r", "c"), Error);
}

}  // namespace
}  // namespace mtf::testing
