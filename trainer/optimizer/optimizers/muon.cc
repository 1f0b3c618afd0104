// Muon (Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"): the momentum of a matrix is
// replaced by the nearest matrix with orthonormal rows or columns, so that a step is equally long in all directions.
//   m = momentum m + g;  O = orthogonalised(g + momentum m)
//   w -= learning rate * (update_rms sqrt(max(rows, columns)) O + decay * w)
// The root mean square of O's entries is 1 / sqrt(max(rows, columns)), so that of a step is learning rate * update_rms;
// 0.2 is about that of AdamW, whose rates and decays then fit (Liu et al. 2025, "Muon is scalable for LLM training",
// eq. 4). Weights that are no matrices, and those of `adam`, are updated by AdamW.
//
// O comes from a Newton-Schulz iteration: with X = m / |m|, iterations times X = a X + (b A + c A^2) X, A = X X', which
// moves all singular values towards 1, to about 0.7 to 1.2. Sums over rows and columns are contractions over named
// dimensions, which run on any layout.
//
// Rows are the first dimensions of a weight and columns the last, cut where both are nearest in size: [d_model, heads,
// d_kv] is d_model x (heads d_kv), a kernel [3, 3, in, out] of a convolution is (3 3 in) x out. Dimensions of
// stacked_dim_names stack independent matrices.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/einsum.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/unary.h"
#include "trainer/optimizer/optimizers/adam.h"
#include "trainer/optimizer/patterns.h"
#include "trainer/optimizer/update.h"

namespace mtf {
namespace {

/// The coefficients of Jordan et al. for five iterations.
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
/// Keeps the norm of a gradient of zeros from 0.
constexpr double kLeastNorm = 1e-7;

/// A weight as a stack of matrices.
struct Matrices {
  Shape stacked, rows, columns;
};

/// `shape` with other names for its dimensions.
Shape primed(const Shape& shape) {
  std::vector<Dimension> dimensions;
  for (const Dimension& d : shape) dimensions.push_back({"_muon_" + d.name, d.size});
  return Shape(std::move(dimensions));
}

/// x with the dimensions `to` in place of `from`.
Tensor renamed(Tensor x, const Shape& from, const Shape& to) {
  for (int i = 0; i < from.rank(); ++i) x = rename(x, from[i].name, to[i].name);
  return x;
}

/// x: [stacked, rows, columns]. Returns an approximation of U V', where U S V' is the singular value decomposition of x.
Tensor orthogonalised(const Tensor& x, const Matrices& matrices, int64_t iterations) {
  const bool is_wide = matrices.rows.size() <= matrices.columns.size();
  const Shape& side = is_wide ? matrices.rows : matrices.columns;  // the smaller one
  const Shape other = primed(side), summed = primed(other), gram = matrices.stacked + side + other;
  const Tensor norm = sqrt(reduce_sum(square(x), matrices.stacked));
  Tensor result = divide(x, scalar_add(norm, kLeastNorm), x.shape());
  for (int64_t i = 0; i < iterations; ++i) {
    const Tensor a = einsum({result, renamed(result, side, other)}, gram);
    // As A is symmetric, A^2 sums over its second dimension with its first one.
    const Tensor squared = einsum({renamed(a, other, summed), renamed(a, side, summed)}, gram);
    const Tensor polynomial = add(scalar_multiply(a, kB), scalar_multiply(squared, kC));
    result = add(scalar_multiply(result, kA), einsum({polynomial, renamed(result, side, other)}, x.shape()));
  }
  return result;
}

struct Muon final : AdamBase {
  static constexpr std::string_view type_name = "muon";
  double momentum = 0.95;
  bool nesterov = true;
  int64_t iterations = 5;
  double update_rms = 0.2;
  std::vector<std::string> adam = {"embedding", "logits", "bias", "scale"};
  std::vector<std::string> stacked_dim_names = {"experts", "ensemble"};
  Muon() {
    beta2 = 0.95;
    weight_decay = 0.1;
  }

  bool is_elementwise() const override { return false; }

  Tensor update(UpdateContext& context, const WeightUpdate& w) const override {
    const std::optional<Matrices> matrices = matrices_of(w.variable.shape);
    if (!matrices || matches_any(w.variable.name, adam)) return corrected_adam(context, w);
    const Variable& slot = context.slot(w.variable.name + "/muon_m", w.variable.shape);
    const Tensor gradient = cast(w.gradient, DType::kFloat32);
    const Tensor m = add(scalar_multiply(context.read(slot), momentum), gradient);
    context.assign(slot, m);
    const Tensor direction = nesterov ? add(gradient, scalar_multiply(m, momentum)) : m;
    const Tensor step = orthogonalised(direction, *matrices, iterations);
    const auto longer = static_cast<double>(std::max(matrices->rows.size(), matrices->columns.size()));
    const double scale = scale_of(w.variable) * update_rms * std::sqrt(longer);
    return context.decayed(sgd_update(w.weight, step, context.learning_rate(scale)), w);
  }

 private:
  /// Nothing: the weight is no matrix.
  std::optional<Matrices> matrices_of(const Shape& shape) const {
    std::vector<Dimension> stacked, rest;
    for (const Dimension& d : shape)
      (std::ranges::find(stacked_dim_names, d.name) == stacked_dim_names.end() ? rest : stacked).push_back(d);
    std::optional<Matrices> best;
    for (auto cut = rest.begin(); cut != rest.end(); ++cut) {
      const Matrices matrices{Shape(stacked), Shape({rest.begin(), cut}), Shape({cut, rest.end()})};
      if (matrices.rows.size() == 1 || matrices.columns.size() == 1) continue;
      if (!best || imbalance(matrices) < imbalance(*best)) best = matrices;
    }
    return best;
  }

  /// The ratio of the longer to the shorter side.
  static double imbalance(const Matrices& m) {
    const auto rows = static_cast<double>(m.rows.size()), columns = static_cast<double>(m.columns.size());
    return std::max(rows, columns) / std::min(rows, columns);
  }
};

void describe(config::Visitor& visit, Muon& options) {
  visit("momentum", options.momentum, "decay of the sum of gradients of matrices", kDecayRate);
  visit("nesterov", options.nesterov, "a step looks one gradient ahead: gradient + momentum * sum");
  visit("iterations", options.iterations, "of Newton and Schulz, which make a step orthogonal",
        config::positive);
  visit("update_rms", options.update_rms, "the root mean square of a step, over the learning rate",
        config::positive);
  visit("adam", options.adam, "patterns of variables that AdamW updates, as it does vectors");
  visit("stacked_dim_names", options.stacked_dim_names, "dimensions that stack independent matrices");
  describe_adam(visit, options, "decay of AdamW's mean of gradients");
  visit.check([&options](const config::Report& report) {
    for (size_t i = 0; i < options.adam.size(); ++i) {
      if (std::string problem = pattern_problem("optimizer.adam", options.adam[i]); !problem.empty())
        report.error(fmt::format("adam.{}", i), std::move(problem));
    }
  });
}

const config::Registration<OptimizerOptions, Muon> muon;

}  // namespace
}  // namespace mtf
