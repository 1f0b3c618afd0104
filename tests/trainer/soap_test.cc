// SOAP against the paper's formulas, written here with Eigen in double precision, and against Adam on a problem that is
// badly conditioned in directions that are no coordinate axes.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <cmath>

#include "tests/trainer/update_run.h"

namespace mtf::testing {
namespace {

using Matrix = Eigen::MatrixXd;

struct PaperOptions {
  double beta1 = 0.95, beta2 = 0.95, epsilon = 1e-8, rate = 0.1, decay = 0;
  int64_t frequency = 10, largest = 1000;
};

/// One weight without stacked dimensions, as an array of its sizes.
class Paper {
 public:
  Paper(std::vector<int64_t> sizes, Values weight, const PaperOptions& options)
      : options_(options), sizes_(std::move(sizes)), weight_(std::move(weight)) {
    m_ = v_ = Values(weight_.size());
    for (const int64_t n : sizes_) {
      factors_.push_back(Matrix::Zero(n, n));
      bases_.push_back(Matrix::Identity(n, n));
    }
    const auto extended = std::ranges::count_if(sizes_, [](int64_t n) { return n > 1; });
    rotates_ = extended > 1 && std::ranges::any_of(sizes_, [this](int64_t n) { return has_factor(n); });
  }

  const Values& weight() const { return weight_; }

  void step(int64_t step, const Values& gradient) {
    if (rotates_ && step == 0) {  // which only makes the bases
      for (double& w : weight_) w -= options_.rate * options_.decay * w;
      return refresh(step, gradient);
    }
    const double t = static_cast<double>(rotates_ ? step : step + 1);
    const Values rotated = turned(gradient, false);
    for (size_t i = 0; i < weight_.size(); ++i) {
      m_[i] = options_.beta1 * m_[i] + (1 - options_.beta1) * gradient[i];
      v_[i] = options_.beta2 * v_[i] + (1 - options_.beta2) * rotated[i] * rotated[i];
    }
    Values direction = turned(m_, false);
    const double largest = *std::ranges::max_element(v_), corrected = 1 / (1 - std::pow(options_.beta2, t));
    const double floor = options_.epsilon + (rotates_ ? 1e-5 * std::sqrt(largest * corrected) : 0);
    for (size_t i = 0; i < weight_.size(); ++i) {
      direction[i] /= 1 - std::pow(options_.beta1, t);
      direction[i] /= std::sqrt(v_[i] * corrected) + floor;
    }
    direction = turned(direction, true);
    for (size_t i = 0; i < weight_.size(); ++i)
      weight_[i] -= options_.rate * (direction[i] + options_.decay * weight_[i]);
    if (rotates_) refresh(step, gradient);
  }

 private:
  bool has_factor(int64_t size) const { return size > 1 && size <= options_.largest; }

  /// The matrix of dimension d against all others.
  Matrix unfolded(const Values& values, size_t d) const {
    Matrix result(sizes_[d], static_cast<Eigen::Index>(values.size()) / sizes_[d]);
    for_each(d, [&](size_t i, int64_t row, int64_t column) { result(row, column) = values[i]; });
    return result;
  }

  template <class Visit>
  void for_each(size_t d, const Visit& visit) const {
    int64_t inner = 1;
    for (size_t k = d + 1; k < sizes_.size(); ++k) inner *= sizes_[k];
    for (size_t i = 0; i < weight_.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i);
      visit(i, at / inner % sizes_[d], at / (inner * sizes_[d]) * inner + at % inner);
    }
  }

  Values turned(Values values, bool back) const {
    for (size_t d = 0; d < sizes_.size(); ++d) {
      const Matrix matrix = unfolded(values, d);
      const Matrix result = back ? Matrix(bases_[d] * matrix) : Matrix(bases_[d].transpose() * matrix);
      for_each(d, [&](size_t i, int64_t row, int64_t column) { values[i] = result(row, column); });
    }
    return values;
  }

  void refresh(int64_t step, const Values& gradient) {
    for (size_t d = 0; d < sizes_.size(); ++d) {
      if (!has_factor(sizes_[d])) continue;
      const Matrix g = unfolded(gradient, d);
      factors_[d] = options_.beta2 * factors_[d] + (1 - options_.beta2) * g * g.transpose();
      if (step == 0) {
        bases_[d] = eigenvectors(factors_[d]);
      } else if (step % options_.frequency == 0) {
        const Matrix product = factors_[d] * bases_[d] + 1e-4 * factors_[d].norm() * bases_[d];
        bases_[d] = Eigen::HouseholderQR<Matrix>(product).householderQ();
      }
    }
  }

  /// Directions without gradients get vectors near the coordinate axes.
  static Matrix eigenvectors(const Matrix& x) {
    const Eigen::SelfAdjointEigenSolver<Matrix> solver(x);
    const Eigen::Index n = x.rows();
    Matrix result(n, n);
    Eigen::Index known = 0;
    for (Eigen::Index k = n; k-- > 0;) {
      if (solver.eigenvalues()[k] > 1e-4 * solver.eigenvalues()[n - 1])
        result.col(known++) = solver.eigenvectors().col(k);
    }
    for (; known < n; ++known) {
      Eigen::Index axis = 0;
      const Matrix rest =
          Matrix::Identity(n, n) - result.leftCols(known) * result.leftCols(known).transpose();
      rest.colwise().norm().maxCoeff(&axis);
      result.col(known) = rest.col(axis).normalized();
    }
    return result;
  }

  PaperOptions options_;
  std::vector<int64_t> sizes_;
  Values weight_, m_, v_;
  std::vector<Matrix> factors_, bases_;
  bool rotates_ = false;
};

UpdateOptions soap(const PaperOptions& options, const std::string& more = {}) {
  return update_options(fmt::format("{{type: soap, precondition_frequency: {}, max_precondition_size: {}, "
                                    "weight_decay: {}, no_decay: []{}}}",
                                    options.frequency, options.largest, options.decay, more),
                        fmt::format("{}", options.rate));
}

Shape shape_of(const std::vector<int64_t>& sizes) {
  std::vector<Dimension> dimensions;
  for (const int64_t size : sizes)
    dimensions.push_back({std::string(1, static_cast<char>('a' + dimensions.size())), size});
  return Shape(dimensions);
}

void expect_paper(const std::vector<int64_t>& sizes, const PaperOptions& options, int64_t steps = 9) {
  const Shape shape = shape_of(sizes);
  const Values weight = random_values(shape.size(), 1, 0.1);
  Paper paper(sizes, weight, options);
  UpdateRun run({{"w", {shape, DType::kFloat32, weight}}}, soap(options));
  for (int64_t step = 0; step < steps; ++step) {
    const Values gradient = random_values(shape.size(), 10 + static_cast<unsigned>(step));
    paper.step(step, gradient);
    run.step(step, {{"w", gradient}}, Layouts::single());
    expect_close(fmt::format("{} after step {}", shape.to_string(), step + 1), run.variables().at("w"),
                 paper.weight(), 3e-4);
  }
}

TEST(Soap, FollowsThePaper) {
  expect_paper({5, 5}, {.frequency = 3});
  expect_paper({4, 6}, {.decay = 0.1, .frequency = 2});  // the first basis of 6 is completed
  expect_paper({6, 4}, {.frequency = 1});
}

TEST(Soap, RotatesOneSideWhereTheOtherIsTooLarge) {
  expect_paper({5, 8}, {.frequency = 2, .largest = 5});
  expect_paper({8, 5}, {.frequency = 2, .largest = 5});
}

TEST(Soap, IsAdamForVectorsAndWhereAllSidesAreTooLarge) {
  expect_paper({7}, {.decay = 0.1});
  expect_paper({1, 7}, {.largest = 5});
  expect_paper({6, 7}, {.largest = 5});
}

TEST(Soap, HasAFactorForEachOfManyDimensions) {
  expect_paper({3, 2, 4}, {.frequency = 2});
  expect_paper({3, 1, 4}, {.frequency = 2});
  expect_paper({2, 3, 9}, {.frequency = 2, .largest = 3});
}

TEST(Soap, StackedWeightsAreIndependent) {
  const PaperOptions options{.frequency = 2};
  const Shape shape{{"stack", 2}, {"a", 4}, {"b", 4}};
  const Values weight = random_values(shape.size(), 1, 0.1);
  std::vector<Paper> papers;
  for (int k : {0, 1})
    papers.emplace_back(std::vector<int64_t>{4, 4},
                        Values(weight.begin() + k * 16, weight.begin() + k * 16 + 16), options);
  UpdateRun run({{"w", {shape, DType::kFloat32, weight}}}, soap(options, ", stacked_dim_names: [stack]"));
  for (int64_t step = 0; step < 6; ++step) {
    const Values gradient = random_values(shape.size(), 10 + static_cast<unsigned>(step));
    Values expected;
    for (int k : {0, 1}) {
      papers[k].step(step, Values(gradient.begin() + k * 16, gradient.begin() + k * 16 + 16));
      expected.insert(expected.end(), papers[k].weight().begin(), papers[k].weight().end());
    }
    run.step(step, {{"w", gradient}}, Layouts::single());
    expect_close("stack", run.variables().at("w"), expected, 3e-4);
  }
  EXPECT_EQ(run.variables().at("w/soap_factor_a").size(), 2u * 4 * 4);
  EXPECT_FALSE(run.variables().contains("w/soap_factor_stack"));
}

/// A gradient begins after some steps (as behind weights that begin with zeros), or some of its rows never do.
TEST(Soap, WaitsForTheFirstGradient) {
  const Shape shape{{"a", 4}, {"b", 3}};
  UpdateRun run({{"w", {shape, DType::kFloat32, Values(12, 1.0)}}}, soap({.frequency = 1}));
  for (int64_t step = 0; step < 3; ++step) run.step(step, {{"w", Values(12)}}, Layouts::single());
  EXPECT_EQ(run.variables().at("w"), Values(12, 1.0));
  EXPECT_EQ(run.variables().at("w/soap_basis_a"), Values(16));
  Values gradient(12);
  gradient[3] = 2;  // a = 1, b = 0
  for (int64_t step = 3; step < 6; ++step) run.step(step, {{"w", gradient}}, Layouts::single());
  const Values& w = run.variables().at("w");
  EXPECT_LT(w[3], 0.95);
  for (size_t i = 0; i < 12; ++i) {
    if (i != 3) {
      EXPECT_EQ(w[i], 1) << i;
    }
  }
}

TEST(Soap, DoesTheSameOnEveryLayout) {
  const Shape shape{{"a", 8}, {"b", 8}}, tensor{{"a", 8}, {"heads", 4}, {"k", 8}},
      stacked{{"stack", 4}, {"a", 8}, {"b", 8}}, vector{{"b", 8}};
  const std::map<std::string, Shape> shapes = {{"w", shape}, {"t", tensor}, {"s", stacked}, {"v", vector}};
  const auto train = [&](const Layouts& layout) {
    std::map<std::string, GoldenTensor> weights;
    for (const auto& [name, of_weight] : shapes)
      weights[name] = {of_weight, DType::kFloat32, random_values(of_weight.size(), 1, 0.1)};
    UpdateRun run(weights,
                  soap({.decay = 0.1, .frequency = 2}, ", clip_norm: 1, stacked_dim_names: [stack]"));
    for (int64_t step = 0; step < 6; ++step) {
      std::map<std::string, Values> gradients;
      for (const auto& [name, of_weight] : shapes)
        gradients[name] = random_values(of_weight.size(), 10 + static_cast<unsigned>(step));
      run.step(step, gradients, layout);
    }
    return run.variables();
  };
  const std::map<std::string, Values> one = train(Layouts::single());
  const std::vector<Layouts> all = {
      layouts("x:2;y:1", "a:x;heads:y"),        layouts("x:1;y:2", "b:y;k:y"),
      layouts("x:2;y:2", "a:x;b:y;k:y"),        layouts("x:2;y:2", "", "a:x", "b:y;heads:y"),
      layouts("x:2;y:2", "a:x", "", "stack:y"), layouts("all:8", "a:all"),
      layouts("all:8", "", "", "b:all;k:all")};
  for (size_t i = 0; i < all.size(); ++i) {
    const std::map<std::string, Values> split = train(all[i]);
    for (const auto& [name, values] : one) {
      expect_close(fmt::format("layout {}: {}", i, name), split.at(name), values, 1e-4);
    }
  }
}

/// The steps until |A (W - target) B|^2 / 2 is a thousandth of what it was, for symmetric A and B with eigenvalues 1 to
/// 1/30 in random directions.
int64_t steps_to_learn(const std::string& optimizer, const std::string& rate) {
  constexpr int n = 8;
  const auto conditioned = [&](unsigned seed) {
    const Values random = random_values(n * n, seed);
    const Matrix q =
        Eigen::HouseholderQR<Matrix>(Eigen::Map<const Matrix>(random.data(), n, n)).householderQ();
    Eigen::VectorXd eigenvalues(n);
    for (int i = 0; i < n; ++i) eigenvalues[i] = std::pow(30.0, -i / (n - 1.0));
    return Matrix(q * eigenvalues.asDiagonal() * q.transpose());
  };
  const Matrix a = conditioned(1), b = conditioned(2);
  const Values target_values = random_values(n * n, 3);
  const Matrix target = Eigen::Map<const Matrix>(target_values.data(), n, n);
  UpdateRun run({{"w", {{{"a", n}, {"b", n}}, DType::kFloat32, Values(n * n)}}},
                update_options(optimizer, rate));
  double first = 0;
  for (int64_t step = 0; step < 400; ++step) {
    const Matrix w = Eigen::Map<const Matrix>(run.variables().at("w").data(), n, n).transpose();
    const Matrix error = a * (w - target) * b;
    const double loss = error.squaredNorm() / 2;
    if (step == 0) first = loss;
    if (loss < 1e-3 * first) return step;
    const Matrix gradient = (a * error * b).transpose();  // row-major
    run.step(step, {{"w", Values(gradient.data(), gradient.data() + n * n)}}, Layouts::single());
  }
  return 400;
}

TEST(Soap, NeedsFewerStepsThanAdamWhereDirectionsAreBadlyConditioned) {
  int64_t adam = 400, soap = 400;
  for (const std::string rate : {"0.02", "0.05", "0.1", "0.2"}) {
    adam = std::min(adam, steps_to_learn("{type: adam, beta1: 0.9, beta2: 0.95}", rate));
    soap = std::min(soap, steps_to_learn("{type: soap, beta1: 0.9, precondition_frequency: 5}", rate));
  }
  RecordProperty("adam", static_cast<int>(adam));
  RecordProperty("soap", static_cast<int>(soap));
  EXPECT_LT(soap, 400);
  EXPECT_LT(soap * 4, adam * 3) << soap << " " << adam;
}

}  // namespace
}  // namespace mtf::testing
