#include "engine/backend/cuda/contractions/prepared_product.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/backend/cuda/contractions/matmul_plan.h"
#include "engine/backend/cuda/contractions/plain_matmul.h"

namespace mtf::cuda {
namespace {

/// True if all first calls for a matrix of the output add to something.
bool always_adds(const EinsumPlan& plan, const Contraction& contraction) {
  return contraction.addend && !plan.packed[kOut];
}

bool adds(const EinsumPlan& plan, const Contraction& contraction, bool accumulates) {
  return !plan.sums.empty() || always_adds(plan, contraction) || (accumulates && !plan.packed[kOut]);
}

MatmulProblem adding(MatmulProblem problem) {
  problem.accumulate = true;
  return problem;
}

/// The products of a plan that `prepare` makes; nothing if it lacks one of them.
template <class Prepare>
std::optional<PreparedProduct> products_of(EinsumPlan plan, const Contraction& contraction, bool accumulates,
                                           const Prepare& prepare) {
  PreparedProduct product{std::move(plan), nullptr, nullptr};
  if (!always_adds(product.plan, contraction)) {
    product.setting = prepare(product.plan.problem);
    if (product.setting == nullptr) return {};
  }
  if (adds(product.plan, contraction, accumulates)) {
    product.adding = prepare(adding(product.plan.problem));
    if (product.adding == nullptr) return {};
  }
  return product;
}

}  // namespace

int64_t PreparedProduct::workspace_bytes() const {
  const auto bytes = [](const auto& matmul) { return matmul == nullptr ? 0 : matmul->workspace_bytes(); };
  return std::max(bytes(setting), bytes(adding));
}

PreparedProduct prepare_product(const Contraction& contraction, bool accumulates, Device& device) {
  const std::pair<LibraryUse, const char*> kAttempts[] = {
      {LibraryUse::kFinishes, ""},
      {LibraryUse::kPlain, "bias and activation are applied by a separate kernel"},
      {LibraryUse::kAligned, "operands are copied to aligned memory first"}};
  std::string wanted;
  for (const auto& [use, way] : kAttempts) {
    EinsumPlan plan = plan_einsum(contraction, use);
    if (use == LibraryUse::kFinishes) wanted = text(plan.problem);
    std::optional<PreparedProduct> product =
        products_of(std::move(plan), contraction, accumulates,
                    [&](const MatmulProblem& problem) { return device.matmuls().prepare(problem); });
    if (!product) continue;
    if (use != LibraryUse::kFinishes) {
      device.note({false, fmt::format("{} has no algorithm for a product of {}: {}",
                                      device.matmuls().version(), wanted, way)});
    }
    return *std::move(product);
  }
  device.note({true, fmt::format("{} has no algorithm for a product of {}: a slow kernel computes it",
                                 device.matmuls().version(), wanted)});
  return *products_of(plan_einsum(contraction, LibraryUse::kPlain), contraction, accumulates,
                      [&](const MatmulProblem& problem) { return make_plain_matmul(device, problem); });
}

}  // namespace mtf::cuda
