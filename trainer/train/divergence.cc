#include "trainer/train/divergence.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/base/counted.h"

namespace mtf {
namespace {

/// Returns "NaN (not a number)", "infinite", or the number itself.
std::string in_words(double number) {
  if (std::isnan(number)) return "NaN (not a number)";
  return std::isinf(number) ? "infinite" : fmt::format("{:.6g}", number);
}

std::string description(const NonFinite& culprit) {
  const bool made = !culprit.operation.empty();  // otherwise the tensor is a variable or an input
  std::string message = "; the first value that is not finite is ";
  message += made ? fmt::format("made by the operation `{}`", culprit.operation) : "in " + culprit.tensor;
  if (!culprit.layer.empty()) message += fmt::format(" in layer `{}`", culprit.layer);
  const int64_t wrong = culprit.nans + culprit.infinities;
  message +=
      fmt::format(": {} NaN and {} infinite of {}", with_thousands(static_cast<double>(culprit.nans)),
                  with_thousands(static_cast<double>(culprit.infinities)), counted(culprit.count, "value"));
  if (wrong < culprit.count)
    message += fmt::format(", the others from {:.4g} to {:.4g}", culprit.smallest, culprit.largest);
  return made ? fmt::format("{} (in the program: {})", message, culprit.tensor) : message;
}

}  // namespace

std::string divergence_text(int64_t step, double loss, double grad_norm,
                            const std::optional<NonFinite>& culprit) {
  return fmt::format("training diverged in step {}: the loss is {}, the norm of the gradients {}", step,
                     in_words(loss), in_words(grad_norm)) +
         (culprit ? description(*culprit) : "");
}

}  // namespace mtf
