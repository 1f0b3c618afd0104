#include "layers/copies.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/counted.h"

namespace mtf {

void CopyLimit::check(std::string_view key, int64_t copies, const Mark& mark) const {
  const auto refuse = [&](const std::string& each, const std::string& most, double fitting) {
    throw Error(ErrorKind::kConfig, mark,
                fmt::format("`{}: {}` makes the model too large: each copy has {}, and the forward pass of a "
                            "model may have {}",
                            key, copies, each, most),
                fmt::format("at most {} here", std::max<int64_t>(1, static_cast<int64_t>(fitting))));
  };
  const int64_t each = std::max<int64_t>(1, operations() - before_);
  if (copies > 1 && copies > (kMostOperations - before_) / each) {
    refuse(with_thousands(static_cast<double>(each)) + " operations",
           with_thousands(static_cast<double>(kMostOperations)),
           static_cast<double>((kMostOperations - before_) / each));
  }
  double elements = 0;
  for (int64_t i = before_; i < operations(); ++i) {
    for (const OutputInfo& output : graph_.current_block()[static_cast<size_t>(i)]->outputs())
      elements += static_cast<double>(output.shape.size());
  }
  if (copies > 1 && static_cast<double>(copies) * elements > kMostElements)
    refuse(fmt::format("tensors of {:.3g} elements", elements), fmt::format("{:.3g}", kMostElements),
           kMostElements / elements);
}

}  // namespace mtf
