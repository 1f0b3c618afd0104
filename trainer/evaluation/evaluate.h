// Evaluation of data sets: each example counts once, the last partial batch too.
//
//   Evaluator evaluator(session, sets, program, variables);
//   for (const Evaluation& e : evaluator.run(step)) ...   // e.metrics: {"loss", 0.32}, {"accuracy", 0.89}
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "engine/runtime/executor.h"
#include "trainer/decode/text_metrics.h"
#include "trainer/report/metrics.h"
#include "trainer/session/evaluation_sets.h"
#include "trainer/session/session.h"

namespace mtf {

/// Means over the examples of one data set.
struct Evaluation {
  std::string dataset;
  Metrics metrics;
  int64_t examples = 0;
  std::optional<int64_t> tokens;  ///< predicted tokens that count; nothing: not of texts
  double seconds = 0;
};

class Evaluator {
 public:
  /// `program`: of build_evaluation; it shares `variables` with the training step.
  Evaluator(const Session& session, std::vector<EvaluationSet> sets, Program program,
            VariableStore& variables);

  /// Nothing when `stop` came true before the end.
  std::optional<std::vector<Evaluation>> run(int64_t step, const std::function<bool()>& stop = {});

 private:
  std::optional<Evaluation> evaluate(const EvaluationSet& set, int64_t step,
                                     const std::function<bool()>& stop);

  std::vector<EvaluationSet> sets_;
  int64_t batch_size_;
  BatchRows rows_;
  Executor executor_;
  std::unique_ptr<TextMetrics> text_metrics_;  ///< null: no data set asks for them
};

/// What evaluate.jsonl says of it besides "dataset": step, the metrics, examples, tokens, seconds.
Metrics evaluation_numbers(int64_t step, const Evaluation& evaluation);

/// run.mode=evaluate: the data sets of evaluate.datasets with each of the checkpoints that
/// evaluate.checkpoint chooses. A JSON line for each data set goes to standard output, a readable one to
/// standard error; nothing is written.
void evaluate(Session& session, Diagnostics& diagnostics);

/// "test  loss 0.3123  accuracy 0.8891  (10,000 examples in 0.4 s)".
std::string evaluation_line(const Evaluation& evaluation);

}  // namespace mtf
