#include "trainer/session/weight_conversions.h"

#include <memory>
#include <numeric>

#include "engine/graph/sharding_rule.h"
#include "engine/runtime/executor.h"

namespace mtf {
namespace {

/// Weights are converted together up to so many bytes.
constexpr int64_t kBytesAtATime = 64'000'000;

}  // namespace

std::optional<WeightCopyOptions> weight_copy_options(const Session& session, const Layouts& layouts,
                                                     bool reads_copies) {
  const InferPrecision precision = session.config.precision.infer;
  const bool is_host = session.backend->is_host();
  if (precision == InferPrecision::kSame && !(reads_copies && is_host)) return std::nullopt;
  WeightCopyOptions options;
  options.type = precision == InferPrecision::kInt8       ? DType::kInt8
                 : precision == InferPrecision::kBFloat16 ? DType::kBFloat16
                                                          : DType::kFloat32;
  options.in_strips = is_host;
  options.parts = [layouts](const std::string& dimension) {
    return std::lcm(LayoutMap(layouts.mesh, layouts.activation).parts(dimension),
                    LayoutMap(layouts.mesh, layouts.parameter).parts(dimension));
  };
  return options;
}

WeightConversions::WeightConversions(const Session& session, const Graph& graph, const Layouts& layouts) {
  for (const auto& variable : graph.variables()) weights_.push_back(variable->name);
  const std::shared_ptr<WeightCopies>& copies = graph.weight_copies();
  if (!copies) return;
  for (int64_t first = 0, last = 0; first < copies->size(); first = last) {
    int64_t bytes = copies->weight_bytes(last++);
    while (last < copies->size() && bytes + copies->weight_bytes(last) <= kBytesAtATime)
      bytes += copies->weight_bytes(last++);
    const std::unique_ptr<Graph> conversion = copies->conversion(first, last);
    for (const auto& variable : conversion->variables()) weights_.push_back(variable->name);
    conversions_.push_back(compile(session, *conversion, layouts));
  }
}

void WeightConversions::make(const Session& session, VariableStore& variables,
                             const std::function<void(VariableStore&)>& load) const {
  for (const Program& conversion : conversions_) {
    VariableStore some(*session.backend, conversion.mesh, conversion.variables,
                       variable_store_options(session, {&variables}));
    if (load) load(some);
    Executor(conversion, *session.backend, some, executor_options(session)).run(0);
  }
}

}  // namespace mtf
