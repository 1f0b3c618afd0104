// Metrics that follow from the predictions for all examples of a data set, such as the F1 of entities, and the predictions
// as lines of text for people and for commands.
//
//   const auto metrics = make_prediction_metrics(executor, set, options);
//   executor.run(step);
//   metrics->add(executor, first, examples);      // in every process
//   metrics->metric("entity_f1")
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/runtime/executor.h"
#include "trainer/config/config.h"
#include "trainer/session/evaluation_sets.h"

namespace mtf {

/// The predictions of a data set as texts, [examples] or, of questions and sentences, one for each of these.
struct PredictedTexts {
  std::vector<std::string> inputs;  ///< what was predicted for; may be empty
  std::vector<std::string> predictions;
  std::vector<std::vector<std::string>> references;  ///< [references, predictions]; of some several are right
};

class PredictionMetrics {
 public:
  virtual ~PredictionMetrics() = default;
  /// Adds the first `examples` rows of the batch that the executor has run, of which the first is example `first` of the
  /// data set. The call is collective.
  virtual void add(const Executor& executor, int64_t first, int64_t examples) = 0;
  /// Returns a metric of the examples so far; is_prediction_metric(name).
  virtual double metric(const std::string& name) const = 0;
  virtual PredictedTexts texts() const = 0;
};

/// The executor's program was built with EvaluationGraphOptions::keep_predictions. Null: the model gives no predictions
/// for examples of this source. `classes`: their names, or empty. Keeps a reference to the source of `set`.
std::unique_ptr<PredictionMetrics> make_prediction_metrics(const Executor& executor, const EvaluationSet& set,
                                                           const AnswerOptions& answers,
                                                           std::vector<std::string> classes);

}  // namespace mtf
