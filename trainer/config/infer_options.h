// The sections `infer` and `score` of a configuration.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/source_options.h"
#include "engine/config/schema.h"
#include "engine/config/types.h"

namespace mtf {

struct BeamMethod {
  static constexpr std::string_view type_name = "beam";
};
struct GreedyMethod {
  static constexpr std::string_view type_name = "greedy";
};
struct SampleMethod {
  static constexpr std::string_view type_name = "sample";
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double presence_penalty = 0, frequency_penalty = 0;
  int64_t samples = 1;
};
using DecodeMethod = std::variant<BeamMethod, GreedyMethod, SampleMethod>;
void describe(config::Visitor& visit, BeamMethod& options);
void describe(config::Visitor& visit, GreedyMethod& options);
void describe(config::Visitor& visit, SampleMethod& options);

/// Tokens that may be written: times the input's, and some.
struct RelativeLength {
  double times = 1.5;
  int64_t plus = 50;
};
void describe(config::Visitor& visit, RelativeLength& options);

/// Beam search ranks texts by log-probability / ((plus + length) / (plus + 1))^alpha; the length counts the end of sequence.
struct LengthPenalty {
  double alpha = 1;
  double plus = 0;

  friend bool operator==(const LengthPenalty&, const LengthPenalty&) = default;
};
void describe(config::Visitor& visit, LengthPenalty& options);

/// How texts are written: the part of `infer` that evaluate.infer has as well.
struct DecodeOptions {
  DecodeMethod method = BeamMethod{};
  int64_t beam_size = 4;
  std::variant<double, LengthPenalty> length_penalty = 0.6;  ///< a number is alpha, with 5 as `plus`
  std::variant<int64_t, RelativeLength> max_length = RelativeLength{};
  int64_t min_length = 0;
  bool force_end = false;            ///< the last token at max_length is the end of sequence
  int64_t no_repeat_ngram_size = 0;  ///< 0: sequences of any length may come twice
  double repetition_penalty =
      1;  ///< divides the logits above 0 of tokens that a text has, and multiplies those below
  std::vector<config::Name> suppress_tokens = {};  ///< pieces of the vocabulary that are never written
  std::vector<config::Name> stop_tokens = {};      ///< pieces at which a text ends, as at the end of sequence
  std::vector<std::string> stop = {};              ///< a text ends before the first of these
  int64_t batch_size = 64;
  int64_t n_best = 1;  ///< texts of a beam search, or samples, that are asked for; a key of `infer` only

  bool is_beam() const { return std::holds_alternative<BeamMethod>(method); }
  const SampleMethod* sampling() const { return std::get_if<SampleMethod>(&method); }
  /// Hypotheses of a text that are worked on together.
  int64_t hypotheses() const {
    return is_beam() ? beam_size : sampling() ? std::max(sampling()->samples, n_best) : 1;
  }
  /// Tokens at most behind so many of the input.
  int64_t limit(int64_t input_tokens) const;
  LengthPenalty penalty_of_length() const;
};
/// The keys of DecodeOptions, n_best apart.
void describe(config::Visitor& visit, DecodeOptions& options);

enum class CheckpointWord { kLatest, kBest };
inline config::EnumNames enum_names(CheckpointWord) {
  return {{"latest", CheckpointWord::kLatest}, {"best", CheckpointWord::kBest}};
}
/// latest, best, a step, or the path of a checkpoint, of a run's directory or of a safetensors file.
using CheckpointChoice = std::variant<CheckpointWord, int64_t, config::Path>;

enum class InferCheckpointWord { kLatest, kBest, kAll };
inline config::EnumNames enum_names(InferCheckpointWord) {
  return {{"latest", InferCheckpointWord::kLatest},
          {"best", InferCheckpointWord::kBest},
          {"all", InferCheckpointWord::kAll}};
}
/// {average: 8}: the mean of the weights of the newest ones.
struct AverageOfCheckpoints {
  int64_t average = 8;
};
void describe(config::Visitor& visit, AverageOfCheckpoints& options);
/// Checkpoints that are decoded with, one after the other or together.
using InferCheckpoints = std::variant<InferCheckpointWord, int64_t, AverageOfCheckpoints, config::Path,
                                      std::vector<CheckpointChoice>>;

/// What the members of an ensemble share: the mean of their probabilities, of their logits, or of their
/// log-probabilities.
enum class EnsembleMean { kProbabilities, kLogits, kLogProbabilities };
inline config::EnumNames enum_names(EnsembleMean) {
  return {{"mean_prob", EnsembleMean::kProbabilities},
          {"mean_logit", EnsembleMean::kLogits},
          {"mean_log_prob", EnsembleMean::kLogProbabilities}};
}
struct EnsembleOptions {
  bool together = false;  ///< the checkpoints are the members of an ensemble
  EnsembleMean mean = EnsembleMean::kProbabilities;
  std::vector<double> weights;  ///< of the members, with any sum; empty: equal ones
};

enum class InferFormat { kText, kJsonl };
inline config::EnumNames enum_names(InferFormat) {
  return {{"text", InferFormat::kText}, {"jsonl", InferFormat::kJsonl}};
}

/// How texts come with the alignment of what they are made of: not, as links between words or between tokens, or with
/// the weights of all tokens.
enum class AlignmentForm : uint8_t { kNone, kWords, kTokens, kWeights };
inline config::EnumNames enum_names(AlignmentForm) {
  return {{"none", AlignmentForm::kNone},
          {"words", AlignmentForm::kWords},
          {"tokens", AlignmentForm::kTokens},
          {"weights", AlignmentForm::kWeights}};
}

struct InferOptions : DecodeOptions {
  config::TextOr<SourceOptions> input = "-";  ///< a file of lines, or a source
  std::string output = "-";
  std::string prefix;
  InferCheckpoints checkpoint = InferCheckpointWord::kLatest;
  EnsembleOptions ensemble;
  bool echo = false;
  AlignmentForm alignment = AlignmentForm::kNone;
  InferFormat format = InferFormat::kText;
};
void describe(config::Visitor& visit, InferOptions& options);

struct ScoreOptions {
  std::string inputs, targets;       ///< files of lines
  std::optional<SourceChoice> data;  ///< a source of texts, in place of both
  std::string output = "-";
  bool per_token = false;
  AlignmentForm alignment = AlignmentForm::kNone;
  InferCheckpoints checkpoint = InferCheckpointWord::kLatest;
  EnsembleOptions ensemble;
};
void describe(config::Visitor& visit, ScoreOptions& options);

}  // namespace mtf
