// Predictions as the lines that run.mode=infer writes, in the order of the examples: a line for each example, sentence or
// question.
//
//   const auto lines = make_prediction_lines(program, *source, options);
//   executor.run(step);
//   lines->add(executor, first, examples);                       // in every process
//   for (const std::string& line : lines->take(false)) output.line(line);
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/source.h"
#include "engine/runtime/executor.h"
#include "trainer/config/config.h"

namespace mtf {

struct PredictionLineOptions {
  InferFormat format = InferFormat::kText;
  AnswerOptions answers;
  std::string preparation;  ///< Source::preparation() of the training data: the names of classes
  int64_t first_line = 0;   ///< the number of the first line
  bool has_ids = true;      ///< questions have ids of their own
};

class PredictionLines {
 public:
  virtual ~PredictionLines() = default;
  /// Adds the first `examples` rows of the batch that the executor has run, of which the first is example `first` of the
  /// source; batches come in order. The call is collective.
  virtual void add(const Executor& executor, int64_t first, int64_t examples) = 0;
  /// Returns the lines to which further rows add nothing, and removes them. `all`: no further row comes.
  virtual std::vector<std::string> take(bool all) = 0;
};

/// `program` is of build_prediction(), with probabilities for InferFormat::kJsonl, and `source` is what it predicts for.
/// Keeps a reference to `source`. Throws Error (kConfig, at `mark`) when the examples of the source lack what a line needs:
/// words for tags, texts for answers.
std::unique_ptr<PredictionLines> make_prediction_lines(const Program& program, const Source& source,
                                                       const PredictionLineOptions& options,
                                                       const Mark& mark);

}  // namespace mtf
