#include "trainer/session/inputs_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "engine/base/print_message.h"
#include "models/text_decoder.h"

namespace mtf {
namespace {

std::vector<NamedTexts> training_texts_of(const Session& session) {
  const auto& train = session.config.data.train;
  return train ? training_texts(*train) : std::vector<NamedTexts>();
}

/// False if a masked language model's examples were reported, which have a target for each hidden token alone.
bool check_objective(const Session& session, const NamedTexts& texts, Diagnostics& diagnostics) {
  const auto& objective = texts.source.objective;
  const bool predicts_rows = session.model->decoder() != nullptr || session.model->is_aligned();
  if (!predicts_rows || !objective || objective->type() != "masked_lm") return true;
  diagnostics.error(session.config.mark(texts.key + ".objective"),
                    fmt::format("`objective: masked_lm` of `{}` has targets for hidden tokens alone, and the "
                                "model predicts all tokens of a row",
                                texts.key),
                    "`model.type: masked_lm`, or another objective");
  return false;
}

/// Reports texts without an inputs part at `mark`.
void check_inputs_part(const Session& session, const NamedTexts& texts, const Mark& mark,
                       Diagnostics& diagnostics) {
  const std::string_view setting = session.model->inputs_part_setting();
  if (setting.empty() || has_inputs_part(texts.source).value_or(true)) return;
  diagnostics.error(
      mark,
      fmt::format("`{}` needs texts of an inputs part and a targets part, which `{}` does not make", setting,
                  texts.key),
      fmt::format("pairs with `as: targets`, an objective of single texts with `as: targets`, or {}",
                  setting.starts_with("type") ? "`type: lm`" : fmt::format("no `{}`", setting)));
}

/// Reports joined pairs that are split: of a row, the model would take inputs for targets.
void check_split(const Session& session, const NamedTexts& texts, Diagnostics& diagnostics) {
  const std::string_view setting = session.model->inputs_part_setting();
  if (setting.empty() || !texts.source.joins_pairs() || texts.source.objective ||
      session.config.data.filter.too_long != TooLong::kSplit) {
    return;
  }
  diagnostics.error(session.config.mark("data.filter.too_long"),
                    fmt::format("pairs of `{}` are split, and `{}` needs whole ones", texts.key, setting),
                    "drop or cut; or leave it out: single texts are split, and pairs dropped");
}

/// Reports pairs of answers that nothing compares, and texts that are none where answers are compared.
void check_preferences(const Session& session, const NamedTexts& texts, Diagnostics& diagnostics) {
  const bool compares = session.config.preference.has_value();
  if (compares == texts.source.has_preferences()) return;
  if (compares) {
    diagnostics.error(session.config.mark(texts.key),
                      fmt::format("`preference` compares two answers, and `{}` has single texts", texts.key),
                      "a source of type preferences");
  } else {
    diagnostics.error(session.config.mark(texts.key),
                      fmt::format("of pairs of answers, as in `{}`, the model would learn both", texts.key),
                      "section `preference`, which compares them, or another source, such as chat");
  }
}

/// How many sources of data.train make texts with an inputs part.
int64_t sources_with_inputs_part(const std::vector<NamedTexts>& sources) {
  return std::ranges::count_if(
      sources, [](const NamedTexts& texts) { return has_inputs_part(texts.source).value_or(false); });
}

}  // namespace

void check_text_rows(Session& session, Diagnostics& diagnostics) {
  const Config& config = session.config;
  const RunMode mode = config.run.mode;
  const bool trains = mode == RunMode::kTrain || mode == RunMode::kExplain || mode == RunMode::kBench;
  if (!session.model || (!trains && mode != RunMode::kEvaluate)) return;
  bool has_rows = true;
  if (trains) {
    const std::string_view setting = session.model->inputs_part_setting();
    const Mark mark = config.mark(fmt::format("model.{}", setting.substr(0, setting.find(':'))));
    for (const NamedTexts& texts : training_texts_of(session)) {
      has_rows &= check_objective(session, texts, diagnostics);
      check_inputs_part(session, texts, mark, diagnostics);
      check_split(session, texts, diagnostics);
      check_preferences(session, texts, diagnostics);
    }
  }
  for (const auto& [name, dataset] : config.evaluate.datasets) {
    const TextSourceOptions* const source = text_source(dataset.choice);
    if (source == nullptr) continue;
    const NamedTexts texts{"evaluate.datasets." + name, *source};
    has_rows &= check_objective(session, texts, diagnostics);
    check_inputs_part(session, texts, config.mark(texts.key), diagnostics);
    check_preferences(session, texts, diagnostics);
  }
  if (!has_rows) session.model.reset();
}

bool ends_prompts(const Session& session) {
  const TextDecoder& decoder = *session.model->decoder();
  if (decoder.has_encoder() || decoder.ends_prompts()) return decoder.ends_prompts();
  const std::vector<NamedTexts> sources = training_texts_of(session);
  return !sources.empty() && sources_with_inputs_part(sources) == std::ssize(sources);
}

void warn_of_prompts(const Session& session) {
  if (!session.processes->is_first() || session.model->decoder()->has_encoder() || ends_prompts(session))
    return;
  if (sources_with_inputs_part(training_texts_of(session)) == 0) return;
  print_message(
      "warning: some sources of `data.train` end prompts with an end of sequence, and others have none, or "
      "ids of which that is not known: it is not added to prompts; `model.type: delimited_lm` adds it\n");
}

}  // namespace mtf
