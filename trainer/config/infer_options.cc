#include "trainer/config/infer_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/counted.h"

namespace mtf {

void describe(config::Visitor&, BeamMethod&) {}
void describe(config::Visitor&, GreedyMethod&) {}

void describe(config::Visitor& visit, SampleMethod& options) {
  visit("temperature", options.temperature, "what logits are divided by; 0: the likeliest token",
        config::non_negative);
  visit("top_k", options.top_k, "only so many of the likeliest tokens; 0: all", config::non_negative);
  visit("top_p", options.top_p, "only the likeliest tokens that have this probability together",
        config::probability);
  visit("min_p", options.min_p, "only tokens at least so many times as likely as the likeliest one",
        config::probability);
  visit("presence_penalty", options.presence_penalty,
        "what the logit of a token loses once it has been written; less than 0: it gains");
  visit("frequency_penalty", options.frequency_penalty,
        "what the logit of a token loses each time that it has been written");
  visit("samples", options.samples, "texts for each line", config::positive);
}

void describe(config::Visitor& visit, RelativeLength& options) {
  visit("times", options.times, "so many times the tokens of the input", config::non_negative);
  visit("plus", options.plus, "and so many more", config::non_negative);
}

void describe(config::Visitor& visit, LengthPenalty& options) {
  visit("alpha", options.alpha, "the power of the length; 0: the length does not count",
        config::non_negative);
  visit("plus", options.plus,
        "what is added to the length: 5 as in Wu et al. 2016, 0 as in transformers for texts of which no "
        "token is given",
        config::non_negative);
}

LengthPenalty DecodeOptions::penalty_of_length() const {
  constexpr double kUsualPlus = 5;
  if (const auto* alpha = std::get_if<double>(&length_penalty)) return {*alpha, kUsualPlus};
  return std::get<LengthPenalty>(length_penalty);
}

int64_t DecodeOptions::limit(int64_t input_tokens) const {
  constexpr int64_t kMost = 1'000'000'000;  // what is computed of it does not overflow
  if (const auto* tokens = std::get_if<int64_t>(&max_length)) return std::min(*tokens, kMost);
  const auto& relative = std::get<RelativeLength>(max_length);
  const double most =
      std::floor(relative.times * static_cast<double>(input_tokens)) + static_cast<double>(relative.plus);
  return std::max<int64_t>(1, static_cast<int64_t>(std::min(most, static_cast<double>(kMost))));
}

void describe(config::Visitor& visit, DecodeOptions& options) {
  visit("method", options.method, "how tokens are chosen: beam search, greedily, or drawn at random");
  visit("beam_size", options.beam_size, "hypotheses of beam search", config::positive);
  visit("length_penalty", options.length_penalty,
        "alpha: beam search ranks by log-probability / ((5 + length) / 6)^alpha; or {alpha: A, plus: B} for "
        "((B + length) / (B + 1))^A",
        config::non_negative);
  visit("max_length", options.max_length, "tokens at most: a number, or by the input's length",
        config::positive);
  visit("min_length", options.min_length,
        "tokens at least, unless `max_length` or a text of `stop` comes first; the end of the text is not "
        "counted",
        config::non_negative);
  visit("force_end", options.force_end,
        "a text that reaches `max_length` ends there: its last token is the end of sequence, which costs it "
        "nothing");
  visit("no_repeat_ngram_size", options.no_repeat_ngram_size,
        "no sequence of so many tokens comes twice in a text; 0: any may", config::non_negative);
  visit(
      "repetition_penalty", options.repetition_penalty,
      "logits of tokens that are in the text, or in what it begins with, are divided by this where they are "
      "above 0, else multiplied; beam search multiplies log-probabilities; 1: no penalty",
      config::positive);
  visit("suppress_tokens", options.suppress_tokens,
        "pieces of the vocabulary that are never written, such as [\"<unk>\"]");
  visit("stop_tokens", options.stop_tokens,
        "pieces of the vocabulary at which a text ends, as at the end of sequence, such as [\"<|im_end|>\"]; "
        "they "
        "are no part of it");
  visit("stop", options.stop, "a text ends before the first of these, such as [\"###\"]");
  visit.check([&options](const config::Report& report) {
    const auto* most = std::get_if<int64_t>(&options.max_length);
    if (most != nullptr && options.min_length > *most)
      report.error("min_length",
                   fmt::format("`min_length` is {}, and `max_length` {}", options.min_length, *most),
                   "a smaller one");
    if (std::ranges::find(options.stop, "") != options.stop.end())
      report.error("stop", "an empty text in `stop`, which would end each text before it begins",
                   "texts such as \"###\"");
  });
  visit("batch_size", options.batch_size, "texts or examples at a time, at most", config::positive);
}

void describe(config::Visitor& visit, AverageOfCheckpoints& options) {
  visit("average", options.average, "so many of the newest checkpoints", config::positive);
}

namespace {

/// "" is no file.
void check_named(const config::Report& report, const std::string& section, const std::string& key,
                 const std::string& file) {
  if (file.empty()) report.error(key, fmt::format("`{}.{}` names no file", section, key), "a path, or \"-\"");
}

constexpr const char* kCheckpointHelp =
    "latest, best, a step, {average: N}, a path (a checkpoint, a run or a .safetensors file), all, or a list "
    "of steps and paths";

void describe_ensemble(config::Visitor& visit, EnsembleOptions& options) {
  visit("ensemble", options.together,
        "the checkpoints of the list are the members of an ensemble, which predicts each token together");
  visit(
      "ensemble_reduce", options.mean,
      "what an ensemble predicts: mean_prob, the mean of the members' probabilities; mean_logit, the "
      "softmax of the mean of their logits; or mean_log_prob, the mean of their log-probabilities, so that a "
      "text's log-probability is the mean of the members'");
  visit("ensemble_weights", options.weights,
        "how much each checkpoint of the list counts in the mean; none: all the same", config::positive);
}

/// An ensemble has several members.
void check_members(const config::Report& report, const std::string& section, const EnsembleOptions& options,
                   const InferCheckpoints& checkpoint) {
  const auto* list = std::get_if<std::vector<CheckpointChoice>>(&checkpoint);
  if (!options.weights.empty() && (!options.together || !list || list->size() != options.weights.size())) {
    report.error("ensemble_weights",
                 fmt::format("`{}.ensemble_weights` has {} for {}", section,
                             counted(std::ssize(options.weights), "weight"),
                             !options.together ? "no ensemble"
                             : list            ? counted(std::ssize(*list), "checkpoint")
                                               : "checkpoints that are not listed"),
                 fmt::format("`{0}.ensemble: true` and a weight for each checkpoint of the list "
                             "`{0}.checkpoint`",
                             section));
  }
  if (!options.together) return;
  const auto* word = std::get_if<InferCheckpointWord>(&checkpoint);
  if ((list && list->size() > 1) || (word && *word == InferCheckpointWord::kAll)) return;
  report.error(
      "ensemble",
      fmt::format("`{}.ensemble` needs several checkpoints, and `{}.checkpoint` is one", section, section),
      fmt::format("a list, such as `{}.checkpoint: [1000, 2000]`, or all", section));
}

constexpr const char* kAlignmentHelp =
    "of models with an encoder: a text comes with ` ||| ` and links such as 0-0 2-1, of the input's words or "
    "tokens (from 0) to its own, those of the largest weight in the attention that `model.alignment` names; "
    "weights: in JSON, for each token those of the input's";

/// Weights are for JSON alone.
void check_form(const config::Report& report, AlignmentForm form, bool is_json, const char* hint) {
  if (form == AlignmentForm::kWeights && !is_json)
    report.error("alignment", "weights of alignments are written in JSON", hint);
}

/// Beam search has so many texts; of samples `n_best` and `samples` say the same.
void check_n_best(const config::Report& report, const DecodeOptions& options) {
  const SampleMethod* method = options.sampling();
  if (method != nullptr && method->samples > 1 && options.n_best > 1 && options.n_best != method->samples)
    report.error("n_best",
                 fmt::format("`infer.n_best` asks for {} samples, and `samples` of the method for {}",
                             options.n_best, method->samples),
                 "one of the two");
  if (options.n_best <= options.hypotheses()) return;
  report.error("n_best",
               fmt::format("`infer.n_best` ({}) is more than the number of hypotheses ({})", options.n_best,
                           options.hypotheses()),
               options.is_beam() ? "a larger `beam_size`" : "`method: beam`, or one that draws");
}

}  // namespace

void describe(config::Visitor& visit, InferOptions& options) {
  visit("input", options.input,
        "file of lines; \"-\": standard input; or a source, whose labels and targets are not needed");
  visit("output", options.output,
        "file; \"-\": standard output; with several checkpoints {step} in its name");
  visit("prefix", options.prefix,
        "file of lines that the texts begin with; a language model goes on from them, and writes them with "
        "`echo` only");
  visit("checkpoint", options.checkpoint, kCheckpointHelp);
  describe_ensemble(visit, options.ensemble);
  describe(visit, static_cast<DecodeOptions&>(options));
  visit("n_best", options.n_best,
        "so many of a beam search's texts, or so many samples, as LINE ||| TEXT ||| SCORE", config::positive);
  visit("echo", options.echo, "language models: the text begins with what was given");
  visit("alignment", options.alignment, kAlignmentHelp);
  visit("format", options.format,
        "text, or jsonl: a JSON object for each text with tokens and scores, or for each prediction with "
        "probabilities");
  visit.check([&options](const config::Report& report) {
    if (!options.input.choice) check_named(report, "infer", "input", options.input.text);
    check_named(report, "infer", "output", options.output);
    check_members(report, "infer", options.ensemble, options.checkpoint);
    check_form(report, options.alignment, options.format == InferFormat::kJsonl, "`infer.format: jsonl`");
    check_n_best(report, options);
  });
}

void describe(config::Visitor& visit, ScoreOptions& options) {
  visit("inputs", options.inputs,
        "file of lines that the encoder reads, or that stand in front of the targets");
  visit("targets", options.targets, "file of lines whose probability is asked for");
  visit("data", options.data, "source of texts with both, in place of these files");
  visit("output", options.output, "file; \"-\": standard output");
  visit("per_token", options.per_token, "JSON lines with the log-probability of each token");
  visit("alignment", options.alignment, kAlignmentHelp);
  visit("checkpoint", options.checkpoint, kCheckpointHelp);
  describe_ensemble(visit, options.ensemble);
  visit.check([&options](const config::Report& report) {
    check_named(report, "score", "output", options.output);
    if (options.data && !(options.inputs.empty() && options.targets.empty()))
      report.error("data", "`score.data` beside `score.inputs` and `score.targets`",
                   "a source of texts, or files of lines");
    check_members(report, "score", options.ensemble, options.checkpoint);
    check_form(report, options.alignment, options.per_token, "`score.per_token: true`");
  });
}

}  // namespace mtf
