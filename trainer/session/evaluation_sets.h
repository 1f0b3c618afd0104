// Opens the data sets of evaluate.datasets: their sources, metrics and texts.
//
//   for (const EvaluationSet& set : open_evaluation_sets(session, diagnostics)) ...
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/evaluation_texts.h"
#include "trainer/session/evaluation_graph.h"
#include "trainer/session/session.h"

namespace mtf {

/// Returns the metrics of generated texts: bleu (13a), chrf, chrf++ and ter, computed as by mtf-bleu.
std::vector<std::string> text_metric_names();
bool is_text_metric(std::string_view name);

struct EvaluationSet {
  std::string name;
  std::shared_ptr<const Source> source;
  std::vector<std::string> metrics;  ///< in the order of reports
  std::optional<int64_t> limit;
  std::vector<CommandMetric> commands = {};  ///< their metrics come last
  bool has_chosen_metrics = false;           ///< the configuration names `metrics`
  EvaluationTexts texts = {};                ///< set if there are metrics of generated texts

  /// Returns the metrics of generated texts (`texts`), or those that the model computes.
  std::vector<std::string> metrics_of(bool texts) const;
};

/// Returns the data sets of evaluate.datasets with their metrics, without sources. Unknown metrics are
/// reported to `diagnostics`.
std::vector<EvaluationSet> declared_evaluation_sets(const Session& session, Diagnostics& diagnostics);

/// Returns the data sets with open sources. Unknown metrics are reported to `diagnostics`, and so are
/// features that differ from those of data.train or, in run.mode=evaluate, which does not read it, from those
/// of the first data set.
std::vector<EvaluationSet> open_evaluation_sets(const Session& session, Diagnostics& diagnostics);

/// True if evaluations of this session show wrongly classified images (evaluate.misclassified), as far as the data have
/// images. Evaluations within a run do, and run.mode=evaluate with evaluate.output.
bool shows_misclassified(const Session& session);

/// Returns what the evaluation of the session's data sets computes. The session must have train_data.
EvaluationGraphOptions evaluation_graph_options(const Session& session);

}  // namespace mtf
