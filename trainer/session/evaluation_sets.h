// The data sets of evaluate.datasets: their sources, metrics and texts.
//
//   for (const EvaluationSet& set : open_evaluation_sets(session, diagnostics)) ...
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/evaluation_texts.h"
#include "trainer/session/session.h"

namespace mtf {

/// Metrics of written texts: bleu (13a), chrf, chrf++, ter, computed as mtf-bleu does.
std::vector<std::string> text_metric_names();
bool is_text_metric(std::string_view name);

struct EvaluationSet {
  std::string name;
  std::shared_ptr<const Source> source;
  std::vector<std::string> metrics;  ///< in the order of reports
  std::optional<int64_t> limit;
  EvaluationTexts texts = {};  ///< where metrics of written texts are asked for

  /// Of what the model computes, or of what it writes.
  std::vector<std::string> metrics_of(bool texts) const;
};

/// The data sets of evaluate.datasets with their metrics, no source opened yet. Unknown metrics go to
/// `diagnostics`.
std::vector<EvaluationSet> declared_evaluation_sets(const Session& session, Diagnostics& diagnostics);

/// The same, opened. Unknown metrics, and features that differ from those of data.train (in
/// run.mode=evaluate, which does not read it, from those of the first data set) go to `diagnostics`.
std::vector<EvaluationSet> open_evaluation_sets(const Session& session, Diagnostics& diagnostics);

}  // namespace mtf
