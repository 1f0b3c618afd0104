#include "trainer/optimizer/noise_scale.h"

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/unary.h"

namespace mtf {
namespace {

/// Moves a running mean; both begin at zero, and their ratio needs no correction of that.
Tensor moved(UpdateContext& context, std::string_view name, const Tensor& value, double decay) {
  const Variable& slot = context.slot(std::string(name), {});
  const Tensor mean = add(scalar_multiply(context.read(slot), decay),
                          scalar_multiply(cast(value, DType::kFloat32), 1 - decay));
  context.assign(slot, mean);
  return mean;
}

}  // namespace

Tensor gradient_noise_scale(UpdateContext& context, const GradientSquares& squares, double decay) {
  Graph& graph = context.graph();
  const auto domain = graph.domain(Domain::kOptimizer);
  const auto phase = graph.phase(Phase::kUpdate);
  const auto scope = graph.scope("gradient_noise_scale");
  const auto n = static_cast<double>(squares.microbatch_count);
  const Tensor small = scalar_multiply(squares.microbatches, n);
  const Tensor large = square(cast(squares.batch, DType::kFloat64));
  const Tensor signal = scalar_multiply(subtract(scalar_multiply(large, n), small), 1 / (n - 1));
  const Tensor noise =
      scalar_multiply(subtract(small, large), static_cast<double>(squares.batch_size) / (n - 1));
  const Tensor noise_mean = moved(context, kGradientNoise, noise, decay);
  return divide(noise_mean, moved(context, kGradientSignal, signal, decay));
}

}  // namespace mtf
