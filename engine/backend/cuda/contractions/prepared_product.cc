#include "engine/backend/cuda/contractions/prepared_product.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/backend/cuda/contractions/matmul_plan.h"
#include "engine/backend/cuda/contractions/plain_matmul.h"

namespace mtf::cuda {
namespace {

bool adds(const EinsumPlan& plan, bool accumulates) {
  return !plan.sums.empty() || (accumulates && !plan.packed[kOut]);
}

MatmulProblem adding(MatmulProblem problem) {
  problem.accumulate = true;
  return problem;
}

/// The library's products of a plan; nothing if it lacks one of them.
std::optional<PreparedProduct> by_library(EinsumPlan plan, bool accumulates, MatmulLibrary& library) {
  PreparedProduct product{std::move(plan), nullptr, nullptr};
  product.setting = library.prepare(product.plan.problem);
  if (product.setting == nullptr) return {};
  if (adds(product.plan, accumulates)) {
    product.adding = library.prepare(adding(product.plan.problem));
    if (product.adding == nullptr) return {};
  }
  return product;
}

}  // namespace

int64_t PreparedProduct::workspace_bytes() const {
  return std::max(setting->workspace_bytes(), adding == nullptr ? 0 : adding->workspace_bytes());
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
    std::optional<PreparedProduct> product = by_library(std::move(plan), accumulates, device.matmuls());
    if (!product) continue;
    if (use != LibraryUse::kFinishes) {
      device.note({false, fmt::format("{} has no algorithm for a product of {}: {}",
                                      device.matmuls().version(), wanted, way)});
    }
    return *std::move(product);
  }
  PreparedProduct product{plan_einsum(contraction, LibraryUse::kPlain), nullptr, nullptr};
  const MatmulProblem& problem = product.plan.problem;
  product.setting = make_plain_matmul(device, problem);
  if (adds(product.plan, accumulates)) product.adding = make_plain_matmul(device, adding(problem));
  device.note({true, fmt::format("{} has no algorithm for a product of {}: a slow kernel computes it",
                                 device.matmuls().version(), wanted)});
  return product;
}

}  // namespace mtf::cuda
