#include "trainer/decode/infer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "data/text/token_words.h"
#include "engine/base/json.h"
#include "engine/base/print_message.h"
#include "engine/base/seconds_since.h"
#include "trainer/decode/alignment_output.h"
#include "trainer/decode/chosen_weights.h"
#include "trainer/decode/decoding_memory.h"
#include "trainer/decode/group_runs.h"
#include "trainer/decode/output.h"
#include "trainer/decode/paired_lines.h"
#include "trainer/decode/text_codec.h"
#include "trainer/decode/text_metrics.h"
#include "trainer/report/progress.h"
#include "trainer/session/device_notes.h"
#include "trainer/session/inputs_parts.h"
#include "trainer/session/same_run.h"

namespace mtf {
namespace {

/// A line of the input and its result.
struct Line {
  std::string text;
  GivenText given;
  Written written;
  std::vector<ScoredText> scored = {};  ///< the texts written, if their alignments are wanted
};

/// What is given: of a source its inputs, or its only side.
std::optional<TextColumns> given_columns_of(const Session& session) {
  const std::optional<SourceChoice>& source = session.config.infer.input.choice;
  if (!source) return std::nullopt;
  const Mark mark = session.config.mark("infer.input");
  const TextSourceOptions& texts = texts_of(*source, "infer.input", mark);
  return TextColumns{*source, has_side(texts, Side::kInputs) ? Side::kInputs : Side::kTargets, std::nullopt,
                     session.vocabularies, mark};
}

LineFiles given_files_of(const Session& session) {
  const Config& config = session.config;
  return {config.infer.input.text, config.infer.prefix,
          "a line, which may be empty, for each line of the input", config.data.text_limit(),
          given_columns_of(session)};
}

class Infer {
 public:
  Infer(const Session& session, DecodePrograms& programs, DecodingMemory& memory, VariableStore& weights)
      : options_(session.config.infer),
        codec_(session, options_),
        alignment_(codec_, options_.alignment),
        memory_(memory),
        decoder_(programs, weights, options_),
        scorer_(session, weights, programs.environment().ensemble, {.log_probs = false, .alignments = true}) {
  }

  /// Decodes all of `input`. Process 0 has an `output`, the others null. `weights` names the weights in the
  /// report.
  void run(PairedLines& input, TextOutput* output, const std::string& weights) {
    const auto start = std::chrono::steady_clock::now();
    const size_t most = static_cast<size_t>(options_.batch_size) * kBatchesTogether;
    if (output) prompt();
    for (LinePairs some = input.take(most); !some.empty(); some = input.take(most)) {
      std::vector<Line> lines = read(std::move(some));
      decode(lines);
      if (alignment_.is_wanted()) align(lines);
      if (!output) continue;
      for (const Line& line : lines) write(line, *output);
      output->flush();
      prompt();
    }
    const double seconds = seconds_since(start);
    if (output) report(weights, seconds);
  }

 private:
  void prompt() const {
    if (!options_.input.choice) prompt_on_terminal(options_.input.text);
  }

  std::vector<Line> read(LinePairs some) {
    std::vector<Line> lines;
    for (LinePair& pair : some) {
      bool was_cut = false;
      Line line{
          {},
          codec_.given(pair.first, pair.second, static_cast<uint64_t>(lines_++), was_cut, pair.prompt_parts),
          {}};
      line.text = std::move(pair.first);
      lines.push_back(std::move(line));
      cut_ += was_cut;
    }
    return lines;
  }

  void decode(std::vector<Line>& lines) {
    std::vector<GivenText> texts;
    for (const Line& line : lines) texts.push_back(line.given);
    memory_.check(decoded_texts(texts), "infer");
    std::vector<Written> written = *decoder_.decode(texts);
    for (size_t i = 0; i < lines.size(); ++i) lines[i].written = std::move(written[i]);
  }

  /// Feeds what was written to the model again: in the search, attention is that of many hypotheses.
  void align(std::vector<Line>& lines) {
    std::vector<ScoredText> texts;
    for (const Line& line : lines) {
      for (const Hypothesis& hypothesis : line.written) {
        std::vector<int32_t> targets = line.given.prefix;
        targets.insert(targets.end(), hypothesis.tokens.begin(), hypothesis.tokens.end());
        if (targets.empty()) targets.push_back(kEosId);
        const size_t first = targets.size() - hypothesis.tokens.size();
        texts.push_back({line.given.inputs, std::move(targets), first});
      }
    }
    scorer_.score(texts);
    auto next = texts.begin();
    for (Line& line : lines) {
      for (size_t rank = 0; rank < line.written.size(); ++rank) line.scored.push_back(std::move(*next++));
    }
  }

  /// `text`: what is written, which may end before the tokens do.
  AlignedText aligned(const Line& line, const ScoredText& scored, const std::string& text) const {
    std::vector<int32_t> words = words_of_written(codec_.written(), scored.targets);
    if (scored.targets.size() > scored.first && codec_.is_stop_token(scored.targets.back()))
      words.back() = kNoWord;
    const int32_t count = count_words(text);
    std::ranges::replace_if(
        words, [count](int32_t word) { return word >= count; }, kNoWord);
    return {scored, codec_.input_words(line.text, scored.inputs), std::move(words)};
  }

  void write(const Line& line, TextOutput& output) {
    const bool with_prefix = codec_.has_encoder() || options_.echo;
    for (size_t rank = 0; rank < line.written.size(); ++rank) {
      const Hypothesis& hypothesis = line.written[rank];
      tokens_ += static_cast<int64_t>(hypothesis.tokens.size());
      const std::string text = codec_.text(line.given, hypothesis, with_prefix);
      if (options_.format == InferFormat::kJsonl) {
        output.line(json(line, rank, text));
        continue;
      }
      std::string written = one_line(text);
      if (options_.n_best > 1)
        written = fmt::format("{} ||| {} ||| {:.6g}", line.given.number, written, hypothesis.score);
      if (alignment_.is_wanted()) written += alignment_.as_text(aligned(line, line.scored[rank], text));
      output.line(written);
    }
  }

  std::string json(const Line& line, size_t rank, const std::string& text) const {
    const Hypothesis& hypothesis = line.written[rank];
    nlohmann::ordered_json object{{"line", line.given.number},
                                  {"rank", rank},
                                  {"text", text},
                                  {"score", hypothesis.score},
                                  {"log_prob", hypothesis.log_prob}};
    std::vector<std::string> pieces;
    for (const int32_t id : hypothesis.tokens) pieces.push_back(codec_.written().piece(id));
    object["pieces"] = std::move(pieces);
    object["log_probs"] = hypothesis.log_probs;
    if (alignment_.is_wanted()) alignment_.add_to(object, aligned(line, line.scored[rank], text));
    return json_text(object);
  }

  void report(const std::string& weights, double seconds) const {
    print_message("{}: {}, {} in {}: {} lines/s, {} tokens/s\n", weights, counted(lines_, "line"),
                  counted(tokens_, "token"), duration_text(seconds),
                  with_thousands(static_cast<double>(lines_) / seconds),
                  with_thousands(static_cast<double>(tokens_) / seconds));
    warn_of_cuts(cut_);
  }

  const InferOptions& options_;
  TextCodec codec_;
  AlignmentOutput alignment_;
  DecodingMemory& memory_;
  BatchDecoder decoder_;
  Scorer scorer_;
  int64_t lines_ = 0, tokens_ = 0, cut_ = 0;
};

}  // namespace

void infer(Session& session, Diagnostics& diagnostics) {
  diagnostics.throw_if_errors();
  const Config& config = session.config;
  const TextCodec can_write(session, config.infer);
  check_alignment(session, config.infer.alignment, "infer.alignment");
  warn_of_prompts(session);
  const std::vector<WeightGroup> chosen =
      together(choose_weights(config, config.infer.checkpoint, "infer.checkpoint"), config.infer.ensemble);
  const NamedInput input{"infer.input", config.infer.input.choice ? "" : config.infer.input.text},
      prefix{"infer.prefix", config.infer.prefix};
  std::vector<NamedInput> inputs = files_of("infer.input", config.infer.input.choice);
  inputs.insert(inputs.end(), {input, prefix});
  check_output_names(config, "infer.output", config.infer.output, chosen, inputs);
  check_inputs(config, input, prefix, chosen.size());
  const LineFiles files = given_files_of(session);
  const GivenText shortest;
  const GroupModels models(session, chosen.front(), config.infer.ensemble, config.mark("infer.checkpoint"));
  DecodePrograms programs(decode_environment(session, models.ensemble(), true));
  DecodingMemory memory(programs, config.infer);
  memory.check({&shortest, 1}, "infer");
  check_same_run(session, models.programs(), fields_of(session, chosen));
  const DeviceNotes notes(session);
  GroupWeights weights(session, models);
  const auto load = [&](const WeightGroup& group) { weights.load(group); };
  const auto run = [&](const WeightGroup& group, PairedLines* lines, TextOutput* output) {
    Infer(session, programs, memory, weights.variables()).run(*lines, output, description(group));
  };
  for_each_group(session, chosen, files, config.infer.output, load, run);
}

}  // namespace mtf
