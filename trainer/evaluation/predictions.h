// The predictions of a classifier for the examples of a data set, collected from all processes batch by batch.
//
//   Predictions predictions(executor, options);
//   executor.run(step);
//   predictions.add(executor, first, examples);      // in every process
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "engine/runtime/executor.h"
#include "trainer/evaluation/confusion_matrix.h"

namespace mtf {

/// An example with a wrong prediction.
struct Mistake {
  int64_t example = 0;  ///< its number in the data set
  int64_t label = 0, prediction = 0;
  double probability = 0;  ///< that of the prediction, rounded to 4 digits, so that layouts do not differ

  /// The largest probability first, then the first example.
  friend bool operator<(const Mistake& a, const Mistake& b) {
    return a.probability != b.probability ? a.probability > b.probability : a.example < b.example;
  }
};

struct PredictionOptions {
  bool counts_classes = false;
  int64_t mistakes = 0;  ///< so many are kept at most
  std::string dataset;   ///< for messages
};

class Predictions {
 public:
  /// The executor's program was built with EvaluationGraphOptions::keep_predictions. Mistakes are kept only where an
  /// example has one label.
  Predictions(const Executor& executor, PredictionOptions options);

  /// Adds the first `examples` rows of the batch that the executor has run, of which the first is example `first` of
  /// the data set. The call is collective. Throws Error (kData) for a label that the model does not have.
  void add(const Executor& executor, int64_t first, int64_t examples);

  /// Set if classes are counted.
  const std::optional<ConfusionMatrix>& matrix() const { return matrix_; }
  bool keeps_mistakes() const { return options_.mistakes > 0; }
  const std::set<Mistake>& mistakes() const { return mistakes_; }

 private:
  PredictionOptions options_;
  std::optional<ConfusionMatrix> matrix_;
  std::set<Mistake> mistakes_;
};

}  // namespace mtf
