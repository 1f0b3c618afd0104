#include "trainer/decode/text_metrics.h"

#include <algorithm>

#include "trainer/metrics/bleu.h"
#include "trainer/metrics/chrf.h"
#include "trainer/metrics/ter.h"

namespace mtf {
namespace {

constexpr size_t kSamples = 8;

double text_metric(const std::string& name, const std::vector<std::string>& texts,
                   const References& references) {
  if (name == "bleu") return corpus_bleu(texts, references).score;
  if (name == "chrf") return corpus_chrf(texts, references);
  if (name == "chrf++") return corpus_chrf(texts, references, {.word_order = 2});
  return corpus_ter(texts, references).score;
}

}  // namespace

TextMetrics::TextMetrics(const Session& session, VariableStore& weights)
    : codec_(session, session.config.evaluate.infer),
      programs_(session),
      decoder_(programs_, weights, session.config.evaluate.infer) {}

std::optional<TextEvaluation> TextMetrics::evaluate(const EvaluationTexts& texts,
                                                    const std::vector<std::string>& names,
                                                    const std::function<bool()>& stop) {
  const std::vector<GivenText> given = codec_.given_lines(texts.inputs);
  const auto written = decoder_.decode(given, stop);
  if (!written) return std::nullopt;
  std::vector<std::string> hypotheses;
  for (size_t i = 0; i < given.size(); ++i)
    hypotheses.push_back(one_line(codec_.text(given[i], (*written)[i].front(), false)));
  TextEvaluation result;
  for (const std::string& name : names)
    result.metrics.emplace_back(name, text_metric(name, hypotheses, texts.references));
  for (size_t i = 0; i < std::min(hypotheses.size(), kSamples); ++i) {
    const std::string target = texts.references.empty() ? "" : texts.references.front()[i];
    result.samples.push_back({static_cast<int64_t>(i), texts.inputs[i], target, hypotheses[i]});
  }
  result.texts = std::move(hypotheses);
  return result;
}

}  // namespace mtf
