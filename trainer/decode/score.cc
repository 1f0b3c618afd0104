#include "trainer/decode/score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/counted.h"
#include "engine/base/json.h"
#include "trainer/decode/alignment_output.h"
#include "trainer/decode/chosen_weights.h"
#include "trainer/decode/group_runs.h"
#include "trainer/decode/output.h"
#include "trainer/decode/paired_lines.h"
#include "trainer/decode/scorer.h"
#include "trainer/decode/text_codec.h"
#include "trainer/session/device_notes.h"
#include "trainer/session/inputs_parts.h"
#include "trainer/session/same_run.h"

namespace mtf {
namespace {

/// The number of texts that are sorted by length together.
constexpr size_t kTogether = 1024;

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
        alignment_(codec_, options_.alignment),
        scorer_(session, weights, ensemble, {.alignments = alignment_.is_wanted()}),
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
      for (size_t i = 0; i < texts.size(); ++i) output->line(result(texts[i], some[i]));
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
    ScoredText text{codec_.given(inputs, "", 0, was_cut).inputs, codec_.written_ids(targets, was_cut)};
    // A decoder is given the first token.
    text.first = codec_.written().first_token() && !text.targets.empty() ? 1 : 0;
    return text;
  }

  /// Returns the text of a model without encoder: `inputs` are the prompt and have no score. If the text is
  /// too long its beginning is cut off, as in run.mode=infer.
  ScoredText of_continuation(const std::string& inputs, const std::vector<size_t>& parts,
                             const std::string& targets, bool& was_cut) const {
    ScoredText text{{}, codec_.given(inputs, targets, 0, was_cut, parts).prefix};
    text.first = text.targets.size() - codec_.written_ids(targets, was_cut).size();
    return text;
  }

  std::string result(const ScoredText& text, const LinePair& pair) {
    const int64_t line = line_++;
    if (!options_.per_token) {
      const std::string log_prob = fmt::format("{:.9g}", text.log_prob());
      return alignment_.is_wanted() ? log_prob + alignment_.as_text(aligned(text, pair)) : log_prob;
    }
    nlohmann::ordered_json object{{"line", line}, {"log_prob", text.log_prob()}};
    std::vector<std::string> pieces;
    for (size_t i = text.first; i < text.targets.size(); ++i)
      pieces.push_back(codec_.written().piece(text.targets[i]));
    object["pieces"] = std::move(pieces);
    object["log_probs"] = text.log_probs;
    if (alignment_.is_wanted()) alignment_.add_to(object, aligned(text, pair));
    return json_text(object);
  }

  AlignedText aligned(const ScoredText& text, const LinePair& pair) const {
    return {text, codec_.input_words(pair.second, text.inputs),
            codec_.written_words(pair.first, text.targets)};
  }

  const ScoreOptions& options_;
  TextCodec codec_;
  AlignmentOutput alignment_;
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
  check_alignment(session, options.alignment, "score.alignment");
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
