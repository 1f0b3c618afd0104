// SOAP (Vyas et al. 2024, "SOAP: Improving and Stabilizing Shampoo using Adam", arXiv 2409.11321): Adam in
// the eigenbases of Shampoo's factors. For a weight of two dimensions with gradient G and bases P, Q:
//   m = beta1 m + (1 - beta1) G                               kept in the space of the weight
//   v = beta2 v + (1 - beta2) (P' G Q)^2                      kept in the bases
//   w = w - learning rate * (P (P' m Q / (sqrt(v) + epsilon)) Q' + decay * w)      m, v with bias correction
//   L = beta2 L + (1 - beta2) G G',  R = beta2 R + (1 - beta2) G' G
//   P, Q: after the first step the eigenvectors of L, R; then one step of orthogonal iteration every
//         precondition_frequency steps (engine/ops/eigenbasis.h)
// The first step only makes the factors: a gradient is never rotated into a basis that was made of it alone.
//
// A weight with more dimensions has a factor for each of them: that of the matrix of this dimension against all others,
// as Shampoo has for tensors (Gupta et al. 2018). Names say which dimension is which, so nothing is reshaped. Dimensions
// of stacked_dim_names stack independent weights, with factors for each; a dimension of one entry, or of more than
// max_precondition_size, keeps its own axes. What then has no factor, or has only one dimension, is updated by Adam.
#include <fmt/format.h>

#include <algorithm>

#include "engine/graph/matmul_precision_scope.h"
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/eigenbasis.h"
#include "engine/ops/einsum.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/slice.h"
#include "engine/ops/unary.h"
#include "trainer/optimizer/optimizers/adam.h"

namespace mtf {
namespace {

/// Entries of the rotated gradient that are smaller than this part of the largest are rounding errors of the rotation:
/// this part of the largest root of v is added to epsilon, so that they make no steps of full length.
constexpr double kRoundingErrors = 1e-5;

/// One dimension of a weight, the dimension of its eigenvectors, and the basis of this step.
struct Side {
  Dimension dimension, vectors;
  Tensor basis;

  /// x in the basis; the vectors take the name of the dimension.
  Tensor rotated(const Tensor& x) const {
    const Shape rotated = x.shape().renamed(dimension.name, vectors.name);
    return rename(einsum({x, basis}, rotated), vectors.name, dimension.name);
  }
  Tensor rotated_back(const Tensor& x) const {
    return einsum({rename(x, dimension.name, vectors.name), basis}, x.shape());
  }
};

Tensor running_mean(const Tensor& mean, const Tensor& x, double decay) {
  return add(scalar_multiply(mean, decay), scalar_multiply(x, 1 - decay), mean.shape());
}

struct Soap final : AdamBase {
  static constexpr std::string_view type_name = "soap";
  static constexpr std::array common_names = {
      CommonName{"shampoo", "`soap`, which is Adam in Shampoo's eigenbases"}};
  int64_t precondition_frequency = 10;
  int64_t max_precondition_size = 2048;
  std::vector<std::string> stacked_dim_names;
  Soap() { beta1 = beta2 = 0.95; }

  bool is_elementwise() const override { return false; }

  Tensor update(UpdateContext& context, const WeightUpdate& w) const override {
    const Shape& shape = w.variable.shape;
    std::vector<Side> sides = sides_of(shape);
    if (sides.empty()) return corrected_adam(context, w);
    const MatmulPrecisionScope full_precision(context.graph(), MatmulPrecision::kFull);
    const Tensor g = cast(w.gradient, DType::kFloat32);
    for (Side& side : sides) side.basis = advance(context, w.variable, side, g);

    // Turned into the bases, errors of large entries of m would become steps in directions whose v is small.
    const Variable& m_slot = context.slot(w.variable.name + "/soap_m", shape, SlotValues::kExact);
    const Variable& v_slot = context.slot(w.variable.name + "/soap_v", shape, SlotValues::kPositive);
    const Tensor m = running_mean(context.read(m_slot), multiply(g, has_begun(sides.front()), shape), beta1);
    Tensor rotated_g = g, rotated_m = m;
    for (const Side& side : sides) {
      rotated_g = side.rotated(rotated_g);
      rotated_m = side.rotated(rotated_m);
    }
    const Tensor v = running_mean(context.read(v_slot), square(rotated_g), beta2);
    context.assign(m_slot, m);
    context.assign(v_slot, v);

    const double scale = scale_of(w.variable);
    const Tensor root = sqrt(multiply(v, correction(context, v_slot, "second", beta2), shape));
    const Tensor noise = scalar_multiply(reduce_max(root, stacked_of(shape)), kRoundingErrors);
    const Tensor corrected = multiply(rotated_m, correction(context, m_slot, "first", beta1), shape);
    Tensor step = divide(corrected, scalar_add(add(root, noise, shape), epsilon / scale), shape);
    for (const Side& side : sides) step = side.rotated_back(step);
    if (w.decay > 0) {
      step = add(step, scalar_multiply(cast(w.weight, DType::kFloat32), w.decay / scale), shape);
    }
    return sgd_update(w.weight, step, context.learning_rate(scale));
  }

 private:
  bool is_stacked(const Dimension& d) const {
    return std::ranges::find(stacked_dim_names, d.name) != stacked_dim_names.end();
  }

  Shape stacked_of(const Shape& shape) const {
    std::vector<Dimension> stacked;
    for (const Dimension& d : shape) {
      if (is_stacked(d)) stacked.push_back(d);
    }
    return Shape(std::move(stacked));
  }

  /// The dimensions that have a factor; none if the weight is a vector.
  std::vector<Side> sides_of(const Shape& shape) const {
    std::vector<Side> sides;
    int extended = 0;
    for (const Dimension& d : shape) {
      if (is_stacked(d) || d.size == 1) continue;
      ++extended;
      if (d.size <= max_precondition_size) sides.push_back({d, {"_eigen_" + d.name, d.size}, {}});
    }
    if (extended < 2) sides.clear();
    return sides;
  }

  /// Adds the gradient to the factor of a side and brings its basis up to date for the next step; returns the basis of
  /// this step.
  Tensor advance(UpdateContext& context, const Variable& variable, const Side& side, const Tensor& g) const {
    const auto& [d, vectors, unused] = side;
    const Shape shape = stacked_of(variable.shape) + d + vectors;
    const Variable& factor_slot =
        context.slot(variable.name + "/soap_factor_" + d.name, shape, SlotValues::kExact);
    const Variable& basis_slot =
        context.slot(variable.name + "/soap_basis_" + d.name, shape, SlotValues::kExact);
    const Tensor product = einsum({g, rename(g, d.name, vectors.name)}, shape);
    const Tensor factor = running_mean(context.read(factor_slot), product, beta2);
    const Tensor due = context.scalar_of_slot(
        basis_slot.name, "optimizer/precondition",
        [every = precondition_frequency](int64_t step) { return step > 0 && step % every == 0 ? 1 : 0; });
    const Tensor basis = context.read(basis_slot);
    context.assign(factor_slot, factor);
    context.assign(basis_slot, eigenbasis(factor, basis, due, d.name, vectors.name));
    return basis;
  }

  /// 1 where there is a basis, else 0; [stacked dimensions].
  static Tensor has_begun(const Side& side) {
    const Tensor first = slice(side.basis, side.vectors, 0, 1);
    return sign(reduce_sum(square(first), side.basis.shape() - side.dimension - side.vectors));
  }

  /// The moments have no part of the first step.
  static Tensor correction(UpdateContext& context, const Variable& slot, std::string_view moment,
                           double beta) {
    return context.scalar_of_slot(
        slot.name, fmt::format("optimizer/rotated_{}_moment_correction", moment),
        [correction = bias_correction(beta)](int64_t step) { return step == 0 ? 1 : correction(step - 1); });
  }
};

void describe(config::Visitor& visit, Soap& options) {
  visit("precondition_frequency", options.precondition_frequency,
        "steps between refreshes of the eigenbases; each is a QR decomposition", config::positive);
  visit("max_precondition_size", options.max_precondition_size,
        "dimensions with more entries keep their own axes, without a factor and a basis of size x size",
        config::positive);
  visit("stacked_dim_names", options.stacked_dim_names, "dimensions that stack independent weights");
  describe_adam(visit, options, "decay of the mean of gradients");
}

const config::Registration<OptimizerOptions, Soap> soap;

}  // namespace
}  // namespace mtf
