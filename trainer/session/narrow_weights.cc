#include "trainer/session/narrow_weights.h"

#include <memory>
#include <numeric>

#include "engine/graph/sharding_rule.h"
#include "engine/runtime/executor.h"

namespace mtf {
namespace {

/// Weights are converted together up to so many bytes.
constexpr int64_t kBytesAtATime = 64'000'000;

}  // namespace

std::optional<NarrowOptions> narrow_options(const Config& config, const Layouts& layouts) {
  if (config.precision.infer == InferPrecision::kSame) return std::nullopt;
  NarrowOptions options;
  options.type = config.precision.infer == InferPrecision::kInt8 ? DType::kInt8 : DType::kBFloat16;
  options.parts = [layouts](const std::string& dimension) {
    return std::lcm(LayoutMap(layouts.mesh, layouts.activation).parts(dimension),
                    LayoutMap(layouts.mesh, layouts.parameter).parts(dimension));
  };
  return options;
}

NarrowWeights::NarrowWeights(const Session& session, const Graph& graph, const Layouts& layouts) {
  const std::shared_ptr<NarrowProducts>& products = graph.narrow_products();
  if (!products) return;
  for (int64_t first = 0, last = 0; first < products->size(); first = last) {
    int64_t bytes = products->weight_bytes(last++);
    while (last < products->size() && bytes + products->weight_bytes(last) <= kBytesAtATime)
      bytes += products->weight_bytes(last++);
    conversions_.push_back(compile(session, *products->conversion(first, last), layouts));
  }
}

void NarrowWeights::make(const Session& session, VariableStore& variables,
                         const std::function<void(VariableStore&)>& load) const {
  for (const Program& conversion : conversions_) {
    VariableStore some(*session.backend, conversion.mesh, conversion.variables,
                       variable_store_options(session, &variables));
    if (load) load(some);
    Executor(conversion, *session.backend, some, executor_options(session)).run(0);
  }
}

}  // namespace mtf
