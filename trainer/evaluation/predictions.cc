#include "trainer/evaluation/predictions.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <utility>

#include "engine/base/error.h"
#include "trainer/session/evaluation_graph.h"

namespace mtf {
namespace {

double rounded(float probability) {
  constexpr double kDigits = 1e4;
  return std::isfinite(probability) ? std::round(probability * kDigits) / kDigits : 0;
}

}  // namespace

Predictions::Predictions(const Executor& executor, PredictionOptions options) : options_(std::move(options)) {
  const Program& program = executor.program();
  if (program.values[program.output(kLabels)].shape.rank() > 1) options_.mistakes = 0;
}

void Predictions::add(const Executor& executor, int64_t first, int64_t examples) {
  const auto classes = static_cast<int64_t>(executor.scalar(kClasses));
  if (options_.counts_classes && !matrix_) matrix_.emplace(classes);
  const HostTensor labels = executor.fetch(kLabels), predictions = executor.fetch(kPredictions);
  const HostTensor probabilities = options_.mistakes > 0 ? executor.fetch(kProbabilities) : HostTensor();
  const int64_t labels_of_example = labels.shape.size() / labels.shape[0].size;
  for (int64_t i = 0; i < examples * labels_of_example; ++i) {
    const int64_t label = labels.data<int32_t>()[i], prediction = predictions.data<int32_t>()[i];
    if (label < 0) continue;  // there is none
    const int64_t example = first + i / labels_of_example;
    if (matrix_) {
      if (label >= classes)
        throw Error(ErrorKind::kData,
                    fmt::format("evaluate.datasets.{}: example {} has the label {}, and the "
                                "model has the classes 0 to {}",
                                options_.dataset, example, label, classes - 1));
      matrix_->add(label, prediction);
    }
    if (options_.mistakes == 0 || label == prediction) continue;
    mistakes_.insert({example, label, prediction, rounded(probabilities.data<float>()[i])});
    if (std::ssize(mistakes_) > options_.mistakes) mistakes_.erase(std::prev(mistakes_.end()));
  }
}

}  // namespace mtf
