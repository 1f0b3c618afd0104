#include "trainer/evaluation/prediction_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "trainer/evaluation/grouped_predictions.h"
#include "trainer/metrics/answers.h"
#include "trainer/metrics/correlation.h"
#include "trainer/metrics/entities.h"
#include "trainer/session/evaluation_graph.h"

namespace mtf {
namespace {

/// The predictions of a regression, and the numbers that they should be.
class NumberMetrics final : public PredictionMetrics {
 public:
  void add(const Executor& executor, int64_t, int64_t examples) override {
    const HostTensor prediction = executor.fetch(kExample + "prediction"),
                     target = executor.fetch(kExample + "target");
    const int64_t width = target.shape.size() / target.shape[0].size;
    predictions_.resize(static_cast<size_t>(width));
    targets_.resize(static_cast<size_t>(width));
    for (int64_t i = 0; i < examples * width; ++i) {
      predictions_[static_cast<size_t>(i % width)].push_back(prediction.data<float>()[i]);
      targets_[static_cast<size_t>(i % width)].push_back(target.data<float>()[i]);
    }
  }

  /// The mean over the numbers of an example.
  double metric(const std::string& name) const override {
    double sum = 0;
    for (size_t i = 0; i < targets_.size(); ++i)
      sum +=
          name == "pearson" ? pearson(predictions_[i], targets_[i]) : spearman(predictions_[i], targets_[i]);
    return targets_.empty() ? 0 : sum / static_cast<double>(targets_.size());
  }

  PredictedTexts texts() const override { return {{}, lines_of(predictions_), {lines_of(targets_)}}; }

 private:
  static std::vector<std::string> lines_of(const std::vector<std::vector<double>>& columns) {
    std::vector<std::string> lines(columns.empty() ? 0 : columns[0].size());
    for (size_t row = 0; row < lines.size(); ++row) {
      for (const std::vector<double>& column : columns)
        lines[row] += fmt::format("{}{:.7g}", lines[row].empty() ? "" : "\t", column[row]);
    }
    return lines;
  }

  std::vector<std::vector<double>> predictions_, targets_;  ///< [numbers of an example, examples]
};

/// The classes of examples, each of which may have several labels.
class ClassTexts final : public PredictionMetrics {
 public:
  explicit ClassTexts(std::vector<std::string> names) : names_(std::move(names)) {}

  void add(const Executor& executor, int64_t, int64_t examples) override {
    const HostTensor labels = executor.fetch(kLabels), predictions = executor.fetch(kPredictions);
    const int64_t width = labels.shape.size() / labels.shape[0].size;
    for (int64_t row = 0; row < examples; ++row) {
      std::string right, predicted;
      for (int64_t i = row * width; i < (row + 1) * width; ++i) {
        if (labels.data<int32_t>()[i] < 0) continue;
        const std::string_view blank = right.empty() ? "" : " ";
        right += fmt::format("{}{}", blank, class_name(names_, labels.data<int32_t>()[i]));
        predicted += fmt::format("{}{}", blank, class_name(names_, predictions.data<int32_t>()[i]));
      }
      labels_.push_back(std::move(right));
      predictions_.push_back(std::move(predicted));
    }
  }
  double metric(const std::string& name) const override { MTF_CHECK(false, "{} of classes", name); }
  PredictedTexts texts() const override { return {{}, predictions_, {labels_}}; }

 private:
  std::vector<std::string> names_, labels_, predictions_;
};

/// The tags of sentences.
class EntityMetrics final : public PredictionMetrics {
 public:
  EntityMetrics(const ConllSource& source, std::vector<std::string> names)
      : source_(source), names_(std::move(names)), predicted_(source, names_) {}

  void add(const Executor& executor, int64_t first, int64_t examples) override {
    predicted_.add(executor, first, examples);
  }

  double metric(const std::string& name) const override {
    EntityCounts counts;
    for (const auto& [number, predicted] : predicted_.found()) counts.add(tags_of(number), predicted.tags);
    if (name == "entity_precision") return counts.precision();
    return name == "entity_recall" ? counts.recall() : counts.f1();
  }

  PredictedTexts texts() const override {
    PredictedTexts texts{{}, {}, {{}}};
    for (const auto& [number, predicted] : predicted_.found()) {
      texts.inputs.push_back(joined(source_.sentences()[static_cast<size_t>(number)].words));
      texts.predictions.push_back(joined(predicted.tags));
      texts.references[0].push_back(joined(tags_of(number)));
    }
    return texts;
  }

 private:
  static std::string joined(const std::vector<std::string>& words) {
    return fmt::format("{}", fmt::join(words, " "));
  }

  std::vector<std::string> tags_of(int64_t sentence) const {
    std::vector<std::string> tags;
    for (const int32_t tag : source_.sentences()[static_cast<size_t>(sentence)].tags)
      tags.push_back(class_name(names_, tag));
    return tags;
  }

  const ConllSource& source_;
  std::vector<std::string> names_;
  SentenceTags predicted_;
};

/// Answers to questions.
class AnswerMetrics final : public PredictionMetrics {
 public:
  AnswerMetrics(const SquadSource& source, const AnswerOptions& options)
      : unanswerable_(source.has_unanswerable()), best_(source, options, unanswerable_) {}

  void add(const Executor& executor, int64_t first, int64_t examples) override {
    best_.add(executor, first, examples);
  }

  double metric(const std::string& name) const override {
    AnswerScores scores(unanswerable_);
    for (const auto& [number, best] : best_.found())
      scores.add(best_.text(number, best), best_.question(number).answers);
    return name == "exact_match" ? scores.exact_match() : scores.f1();
  }

  PredictedTexts texts() const override {
    PredictedTexts texts{{}, {}, {{}}};
    for (const auto& [number, best] : best_.found()) {
      const SquadQuestion& of = best_.question(number);
      texts.inputs.push_back(of.text);
      texts.predictions.push_back(of.id + "\t" + best_.text(number, best));
      texts.references[0].push_back(fmt::format("{}\t{}", of.id, fmt::join(of.answers, "\t")));
    }
    return texts;
  }

 private:
  bool unanswerable_;
  BestAnswers best_;
};

}  // namespace

std::unique_ptr<PredictionMetrics> make_prediction_metrics(const Executor& executor, const EvaluationSet& set,
                                                           const AnswerOptions& answers,
                                                           std::vector<std::string> classes) {
  const auto has = [&](const std::string& output) { return executor.program().output(output) != kNoValue; };
  if (has(kExample + "target")) return std::make_unique<NumberMetrics>();
  const auto* const squad = dynamic_cast<const SquadSource*>(set.source.get());
  if (squad && has(kExample + "start")) return std::make_unique<AnswerMetrics>(*squad, answers);
  if (!has(kPredictions)) return nullptr;
  if (const auto* const conll = dynamic_cast<const ConllSource*>(set.source.get()))
    return std::make_unique<EntityMetrics>(*conll, std::move(classes));
  return std::make_unique<ClassTexts>(std::move(classes));
}

}  // namespace mtf
