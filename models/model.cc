#include "models/model.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace mtf {

bool greater_is_better(std::string_view metric) {
  constexpr std::array<std::string_view, 7> growing = {
      "accuracy", "token_accuracy", "sequence_accuracy", "bleu", "chrf", "chrf++", "dice"};
  return std::ranges::find(growing, metric) != growing.end();
}

double finish_metric(std::string_view metric, double mean) {
  return metric == "perplexity" ? std::exp(mean) : mean;
}

}  // namespace mtf
