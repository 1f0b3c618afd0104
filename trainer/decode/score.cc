#include "trainer/decode/score.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/base/counted.h"
#include "engine/base/json.h"
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/indexing.h"
#include "models/transformer.h"
#include "trainer/decode/chosen_weights.h"
#include "trainer/decode/group_runs.h"
#include "trainer/decode/output.h"
#include "trainer/decode/paired_lines.h"
#include "trainer/decode/text_codec.h"
#include "trainer/session/device_notes.h"
#include "trainer/session/inputs_parts.h"
#include "trainer/session/model_inputs.h"
#include "trainer/session/same_run.h"

namespace mtf {
namespace {

/// The number of texts that are sorted by length together.
constexpr size_t kTogether = 1024;
/// The limits of a batch: the number of its texts, and of its tokens, each of which has logits.
constexpr size_t kMostTexts = 64, kMostTokens = 4096;
constexpr size_t kKeptPrograms = 16;

/// A text to be scored: its tokens from `first` on.
struct ScoredText {
  std::vector<int32_t> inputs;   ///< tokens of the encoder
  std::vector<int32_t> targets;  ///< tokens with the end-of-sequence token
  size_t first = 0;              ///< the index of the first token after the prompt
  std::vector<float> log_probs = {};

  double log_prob() const {
    double sum = 0;
    for (const float x : log_probs) sum += x;
    return sum;
  }
};

class Scorer {
 public:
  Scorer(const Session& session, VariableStore& weights, const Ensemble& ensemble)
      : session_(session), weights_(weights), environment_(decode_environment(session, ensemble, true)) {}

  /// Sets log_probs of all texts. Texts of similar lengths share a batch.
  void score(std::vector<ScoredText>& texts) {
    std::vector<ScoredText*> order;
    for (ScoredText& text : texts) order.push_back(&text);
    std::ranges::stable_sort(order, std::ranges::greater{},
                             [](const ScoredText* text) { return text->targets.size(); });
    for (std::span<ScoredText*> rest = order; !rest.empty();) {
      const size_t count =
          std::clamp<size_t>(kMostTokens / rest[0]->targets.size(), 1, std::min(kMostTexts, rest.size()));
      score_batch(rest.first(count));
      rest = rest.subspan(count);
    }
  }

 private:
  void score_batch(std::span<ScoredText*> texts) {
    size_t inputs = 0, targets = 0;
    for (const ScoredText* text : texts) {
      inputs = std::max(inputs, text->inputs.size());
      targets = std::max(targets, text->targets.size());
    }
    const auto longest = environment_.decoder.longest_text();
    const int64_t length = length_bucket(static_cast<int64_t>(targets), longest),
                  input_length = inputs == 0 ? 0 : length_bucket(static_cast<int64_t>(inputs), longest),
                  rows = text_bucket(static_cast<int64_t>(texts.size()), environment_);
    std::vector<int32_t> input_ids(static_cast<size_t>(rows * input_length)),
        target_ids(static_cast<size_t>(rows * length)), prompts(static_cast<size_t>(rows));
    for (size_t i = 0; i < texts.size(); ++i) {
      std::ranges::copy(texts[i]->inputs, input_ids.begin() + static_cast<int64_t>(i) * input_length);
      std::ranges::copy(texts[i]->targets, target_ids.begin() + static_cast<int64_t>(i) * length);
      prompts[i] = static_cast<int32_t>(texts[i]->first);
    }
    Executor& executor = program(rows, input_length, length);
    executor.feed("inputs", input_ids.data());
    executor.feed("targets", target_ids.data());
    executor.feed("prompt", prompts.data());
    executor.run(0);
    const HostTensor result = executor.fetch("log_probs");
    for (size_t i = 0; i < texts.size(); ++i) {
      const float* row = result.data<float>() + static_cast<int64_t>(i) * length;
      texts[i]->log_probs.assign(row + texts[i]->first, row + texts[i]->targets.size());
    }
  }

  Executor& program(int64_t rows, int64_t input_length, int64_t length) {
    const std::array<int64_t, 3> key{rows, input_length, length};
    if (programs_.size() == kKeptPrograms && !programs_.contains(key)) programs_.clear();
    std::unique_ptr<Executor>& executor = programs_[key];
    if (executor) return *executor;
    Graph graph;
    const Dimension batch{std::string(kBatch), rows};
    const Tensor targets = graph.input("targets", {batch, {"length", length}}, DType::kInt32);
    const Tensor is_token = not_equal(targets, graph.constant(kPadId, DType::kInt32));
    Features features{{"targets", targets}, {"targets_segmentation", cast(is_token, DType::kInt32)}};
    features[std::string(kPromptFeature)] = graph.input("prompt", {batch}, DType::kInt32);
    if (environment_.decoder.has_encoder())
      features["inputs"] = graph.input("inputs", {batch, {"length", input_length}}, DType::kInt32);
    const Prediction prediction =
        predict(graph, environment_, rows,
                [&](Context& context, const Model& model) { return model.build(context, features).logits; });
    const Tensor& logits = prediction.logits;
    const Tensor of_targets = gather(logits, targets, logits.shape()[logits.shape().rank() - 1].name);
    graph.set_output("log_probs", prediction.log_probs(of_targets));
    executor = std::make_unique<Executor>(compile_checked(session_, graph, environment_.layouts),
                                          *session_.backend, weights_, executor_options(session_));
    return *executor;
  }

  const Session& session_;
  VariableStore& weights_;
  DecodeEnvironment environment_;
  std::map<std::array<int64_t, 3>, std::unique_ptr<Executor>> programs_;
};

/// The texts of score.data: what is scored, and what the encoder reads or stands in front, where the source has it.
std::optional<TextColumns> scored_columns_of(const Session& session) {
  const std::optional<SourceChoice>& source = session.config.score.data;
  if (!source) return std::nullopt;
  const Mark mark = session.config.mark("score.data");
  const TextSourceOptions& texts = texts_of(*source, "score.data", mark);
  if (!has_side(texts, Side::kTargets))
    throw Error(ErrorKind::kConfig, mark, "`score.data` has no targets",
                "the texts that are scored, as targets");
  TextColumns columns{*source, Side::kTargets, std::nullopt, session.vocabularies, mark};
  if (has_side(texts, Side::kInputs)) columns.second = Side::kInputs;
  return columns;
}

LineFiles scored_files_of(const Session& session) {
  const Config& config = session.config;
  return {config.score.targets, config.score.inputs,
          "files in which each line belongs to the same line of the other", config.data.text_limit(),
          scored_columns_of(session)};
}

/// True if there is what the encoder reads, or what stands in front.
bool has_inputs(const LineFiles& files) {
  return files.texts ? files.texts->second.has_value() : !files.second.empty();
}

/// True if the texts are answers of chats, which may spell out the end of sequence.
bool are_answers(const LineFiles& files) {
  return files.texts && files.texts->source.get_if<TextSourceOptions>()->has_answers();
}

class ScoreRun {
 public:
  ScoreRun(const Session& session, VariableStore& weights, const Ensemble& ensemble, const LineFiles& files)
      : options_(session.config.score),
        codec_(session, {}),
        scorer_(session, weights, ensemble),
        goes_on_(has_inputs(files) && !codec_.has_encoder()),
        are_answers_(are_answers(files)) {}

  /// Scores all of `lines`. Process 0 has an `output`, the others null. Returns how many scores are not numbers.
  int64_t run(PairedLines& lines, TextOutput* output) {
    int64_t not_numbers = 0;
    for (LinePairs some = lines.take(kTogether); !some.empty(); some = lines.take(kTogether)) {
      std::vector<ScoredText> texts = read(some);
      scorer_.score(texts);
      not_numbers +=
          std::ranges::count_if(texts, [](const ScoredText& text) { return std::isnan(text.log_prob()); });
      if (!output) continue;
      for (const ScoredText& text : texts) output->line(result(text));
      output->flush();
    }
    if (output) warn_of_cuts(cut_);
    return not_numbers;
  }

 private:
  std::vector<ScoredText> read(const LinePairs& some) {
    std::vector<ScoredText> texts;
    for (const auto& [targets, inputs, parts] : some) {
      bool was_cut = false;
      texts.push_back(goes_on_ ? of_continuation(inputs, parts, targets, was_cut)
                               : of_whole(inputs, targets, was_cut));
      ScoredText& added = texts.back();
      const bool has_end =
          are_answers_ && added.targets.size() > added.first && added.targets.back() == kEosId;
      if (!has_end) added.targets.push_back(kEosId);
      cut_ += was_cut;
    }
    return texts;
  }

  ScoredText of_whole(const std::string& inputs, const std::string& targets, bool& was_cut) const {
    return {codec_.given(inputs, "", 0, was_cut).inputs, codec_.written_ids(targets, was_cut)};
  }

  /// Returns the text of a model without encoder: `inputs` are the prompt and have no score. If the text is
  /// too long its beginning is cut off, as in run.mode=infer.
  ScoredText of_continuation(const std::string& inputs, const std::vector<size_t>& parts,
                             const std::string& targets, bool& was_cut) const {
    ScoredText text{{}, codec_.given(inputs, targets, 0, was_cut, parts).prefix};
    text.first = text.targets.size() - codec_.written_ids(targets, was_cut).size();
    return text;
  }

  std::string result(const ScoredText& text) {
    const int64_t line = line_++;
    if (!options_.per_token) return fmt::format("{:.9g}", text.log_prob());
    nlohmann::ordered_json object{{"line", line}, {"log_prob", text.log_prob()}};
    std::vector<std::string> pieces;
    for (size_t i = text.first; i < text.targets.size(); ++i)
      pieces.push_back(codec_.written().piece(text.targets[i]));
    object["pieces"] = std::move(pieces);
    object["log_probs"] = text.log_probs;
    return json_text(object);
  }

  const ScoreOptions& options_;
  TextCodec codec_;
  Scorer scorer_;
  bool goes_on_;  ///< the second texts of the lines are prompts
  bool are_answers_;
  int64_t line_ = 0, cut_ = 0;
};

void check_files(const Config& config, const LineFiles& files, const TextDecoder& decoder) {
  if (!files.texts && files.first.empty())
    throw Error(ErrorKind::kConfig, config.mark("score"), "`score.targets` is missing",
                "a file of lines, or a source as `score.data`");
  const bool needs_inputs = decoder.has_encoder() || decoder.ends_prompts();
  if (!needs_inputs || has_inputs(files)) return;
  if (files.texts)
    throw Error(ErrorKind::kConfig, config.mark("score.data"), "`score.data` has no inputs",
                decoder.has_encoder() ? "a source with the texts that the encoder reads, too"
                                      : "a source with what stands in front of the targets, too");
  throw Error(ErrorKind::kConfig, config.mark("score"), "`score.inputs` is missing",
              decoder.has_encoder() ? "the file whose lines the encoder reads"
                                    : "the file of what stands in front of the targets");
}

}  // namespace

void score(Session& session, Diagnostics& diagnostics) {
  diagnostics.throw_if_errors();
  const Config& config = session.config;
  const ScoreOptions& options = config.score;
  const TextCodec can_read(session, {});
  const LineFiles files = scored_files_of(session);
  check_files(config, files, *session.model->decoder());
  if (has_inputs(files)) warn_of_prompts(session);
  const std::vector<WeightGroup> chosen =
      together(choose_weights(config, options.checkpoint, "score.checkpoint"), options.ensemble);
  const NamedInput targets{"score.targets", options.targets}, given{"score.inputs", options.inputs};
  std::vector<NamedInput> inputs = files_of("score.data", options.data);
  inputs.insert(inputs.end(), {targets, given});
  check_output_names(config, "score.output", options.output, chosen, inputs);
  check_inputs(config, targets, given, chosen.size());
  const GroupModels models(session, chosen.front(), options.ensemble, config.mark("score.checkpoint"));
  check_same_run(session, models.programs(), fields_of(session, chosen));
  const DeviceNotes notes(session);
  GroupWeights weights(session, models);
  const auto load = [&](const WeightGroup& group) { weights.load(group); };
  int64_t not_numbers = 0;
  const auto run = [&](const WeightGroup&, PairedLines* lines, TextOutput* output) {
    not_numbers += ScoreRun(session, weights.variables(), models.ensemble(), files).run(*lines, output);
  };
  for_each_group(session, chosen, files, options.output, load, run);
  if (not_numbers > 0)
    throw Error(ErrorKind::kDiverged,
                fmt::format("the probabilities of {} are not numbers (NaN)", counted(not_numbers, "line")),
                "weights of an earlier checkpoint");
}

}  // namespace mtf
