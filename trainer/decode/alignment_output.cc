#include "trainer/decode/alignment_output.h"

#include <fmt/format.h>

#include <set>

#include "data/text/token_words.h"

namespace mtf {

void check_alignment(const Session& session, AlignmentForm form, std::string_view key) {
  if (form == AlignmentForm::kNone || session.model->decoder()->has_encoder()) return;
  throw Error(ErrorKind::kConfig, session.config.mark(std::string(key)),
              fmt::format("`{}` is the attention of a decoder to an encoder, and the model has none", key),
              "a `bitransformer`");
}

std::vector<std::pair<int32_t, int32_t>> AlignmentOutput::links(const AlignedText& text) const {
  const size_t inputs = text.scored.inputs.size();
  const auto numbered = [&](const std::vector<int32_t>& words, size_t token) {
    return form_ == AlignmentForm::kWords ? words[token] : static_cast<int32_t>(token);
  };
  std::set<std::pair<int32_t, int32_t>> links;
  for (size_t t = 0; t < text.target_words.size(); ++t) {
    if (text.target_words[t] == kNoWord) continue;
    const float* const weights = text.scored.alignment.data() + t * inputs;
    size_t best = inputs;
    for (size_t i = 0; i < inputs; ++i) {
      if (text.input_words[i] != kNoWord && (best == inputs || weights[i] > weights[best])) best = i;
    }
    if (best < inputs) links.emplace(numbered(text.input_words, best), numbered(text.target_words, t));
  }
  return {links.begin(), links.end()};
}

std::string AlignmentOutput::as_text(const AlignedText& text) const {
  std::string line = " |||";
  for (const auto& [input, target] : links(text)) line += fmt::format(" {}-{}", input, target);
  return line;
}

void AlignmentOutput::add_to(nlohmann::ordered_json& object, const AlignedText& text) const {
  if (form_ != AlignmentForm::kWeights) {
    object["alignment"] = links(text);
    return;
  }
  const ScoredText& scored = text.scored;
  std::vector<std::string> pieces;
  for (const int32_t id : scored.inputs) pieces.push_back(codec_.read().piece(id));
  object["input_pieces"] = std::move(pieces);
  const size_t inputs = scored.inputs.size();
  std::vector<std::vector<float>> weights;
  for (size_t t = scored.first; t < scored.targets.size(); ++t) {
    const float* const row = scored.alignment.data() + t * inputs;
    weights.emplace_back(row, row + inputs);
  }
  object["alignment_weights"] = std::move(weights);
}

}  // namespace mtf
