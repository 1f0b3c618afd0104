#include "layers/lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/ops/einsum.h"
#include "engine/ops/unary.h"
#include "layers/dropout.h"

namespace mtf {

void describe(config::Visitor& visit, LoraOptions& options) {
  visit("rank", options.rank, "columns of the first matrix, rows of the second", config::positive);
  visit("alpha", options.alpha, "their product counts alpha / rank times", config::positive);
  visit("dropout", options.dropout, "rate for what the first matrix reads", config::probability,
        config::reported_on_resume);
  visit.check([&options](const config::Report& report) {
    if (options.dropout >= 1) report.error("dropout", "a dropout rate of 1 leaves nothing", "a rate below 1");
  });
}

Tensor lora_update(Context& context, const std::string& name, const Tensor& x, const Shape& over,
                   const Shape& output, const LoraOptions& options) {
  if (options.rank > std::min(over.size(), output.size()))
    throw Error(ErrorKind::kConfig,
                fmt::format("lora: the rank {} is more than that of `{}`, which is {} x {}", options.rank,
                            name, over.size(), output.size()),
                "a smaller `rank`");
  const Shape rank{{"lora_rank", options.rank}}, kept = x.shape() - over;
  const double limit = 1 / std::sqrt(static_cast<double>(over.size()));
  const Tensor down = context.variable(name + kLoraDown, over + rank, Initializer::uniform(limit));
  const Tensor up = context.variable(name + kLoraUp, rank + output, Initializer::zeros());
  const Tensor narrow = einsum({dropout(context, x, options.dropout), down}, kept + rank);
  return einsum({scalar_multiply(narrow, options.scale()), up}, kept + output);
}

}  // namespace mtf
