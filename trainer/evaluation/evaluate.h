// Evaluates data sets. Each example counts exactly once, also those of a partial last batch.
//
//   Evaluator evaluator(session, sets, program, variables);
//   const auto results = evaluator.run(step);
//   for (const Evaluation& e : *results) ...   // e.metrics: {"loss", 0.32}, {"accuracy", 0.89}
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "engine/base/error.h"
#include "engine/runtime/executor.h"
#include "trainer/decode/text_metrics.h"
#include "trainer/evaluation/confusion_matrix.h"
#include "trainer/evaluation/misclassified.h"
#include "trainer/evaluation/prediction_metrics.h"
#include "trainer/report/metrics.h"
#include "trainer/session/evaluation_sets.h"
#include "trainer/session/session.h"
#include "trainer/session/weight_conversions.h"

namespace mtf {

/// The results of one data set.
struct Evaluation {
  std::string dataset;
  Metrics metrics;
  int64_t examples = 0;
  /// Number of predicted tokens with weight; nullopt if the model reads no texts.
  std::optional<int64_t> tokens;
  double seconds = 0;
  std::vector<DecodedSample> samples = {};  ///< if metrics of decoded texts were asked for
  std::optional<PredictedTexts> texts =
      {};  ///< in process 0, if metrics of decoded texts or predictions were asked for
  std::optional<ConfusionMatrix> matrix = {};  ///< if metrics of classes were asked for
  /// For a classifier of images, in process 0: those with the largest probability first.
  std::optional<std::vector<MisclassifiedImage>> misclassified = {};
  std::vector<std::string> class_names = {};  ///< empty: classes have numbers only
};

/// The failure of an evaluation. All processes throw it, so that they can still save a checkpoint together.
class EvaluationFailure : public Error {
 public:
  using Error::Error;
};

class Evaluator {
 public:
  /// `program` is compiled from build_evaluation() and shares `variables` with the training step. `conversions` make what it
  /// reads besides them, before each evaluation. Keeps a reference to `session`.
  Evaluator(const Session& session, std::vector<EvaluationSet> sets, Program program,
            VariableStore& variables, WeightConversions conversions = {});

  /// Evaluates all data sets with the weights of step `step`. Returns nullopt in all processes if `stop` returned true in one
  /// of them before the end. With several processes it throws EvaluationFailure in all of them, whichever has failed, and Error
  /// (kPeerLost).
  std::optional<std::vector<Evaluation>> run(int64_t step, const std::function<bool()>& stop = {});

 private:
  std::optional<Evaluation> evaluate(const EvaluationSet& set, int64_t step,
                                     const std::function<bool()>& stop);
  bool goes_on(const std::exception_ptr& failure, const std::function<bool()>& stop) const;
  std::optional<Predictions> predictions_of(const EvaluationSet& set) const;
  std::unique_ptr<PredictionMetrics> prediction_metrics_of(const EvaluationSet& set) const;
  std::optional<double> run_command(const CommandMetric& command, const EvaluationSet& set,
                                    const std::function<bool()>& stop, const Evaluation& result) const;

  const Session& session_;
  std::vector<EvaluationSet> sets_;
  int64_t batch_size_;
  BatchPart part_;
  WeightConversions conversions_;
  VariableStore weights_;  ///< the given variables, and those that are made of them
  Executor executor_;
  std::unique_ptr<TextMetrics> text_metrics_;  ///< null if no data set has metrics of decoded texts
};

/// Returns the numbers of a line of evaluate.jsonl: step, the metrics, examples, tokens, seconds.
Metrics evaluation_numbers(int64_t step, const Evaluation& evaluation);

/// Runs run.mode=evaluate: measures the data sets of evaluate.datasets with each checkpoint that
/// evaluate.checkpoint selects. For each data set a JSON line is printed to standard output and a readable
/// one to standard error. Files are written only into evaluate.output (evaluation_files.h).
void evaluate(Session& session, Diagnostics& diagnostics);

/// Returns "  test  loss 0.3123  accuracy 0.8891  (10,000 examples in 0.4 s)".
std::string evaluation_line(const Evaluation& evaluation);
/// Returns the first `most` predicted texts for people: "  dev: what goes in -> what comes out (what is right)".
std::vector<std::string> example_lines(const Evaluation& evaluation, int64_t most);

}  // namespace mtf
