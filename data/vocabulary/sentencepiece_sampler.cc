#include "data/vocabulary/sentencepiece_sampler.h"

#include "data/vocabulary/byte_piece.h"
#include "data/vocabulary/word_cache.h"

namespace mtf {

using Algorithm = SentencePieceModelFile::Algorithm;

std::unique_ptr<SentencePieceSampler> SentencePieceSampler::make(const SentencePieceVocabulary& vocabulary,
                                                                 const SubwordSampling& sampling) {
  const std::optional<SentencePieceModelFile> model = parse_sentencepiece_model(vocabulary.model());
  if (!model) return nullptr;
  const bool can = sampling.kind == SegmentationKind::kUnigram
                       ? model->algorithm == Algorithm::kUnigram && has_costs(*model)
                       : model->algorithm == Algorithm::kBpe && !has_unused_pieces(*model);
  if (!can) return nullptr;
  return std::unique_ptr<SentencePieceSampler>(new SentencePieceSampler(vocabulary, *model, sampling.rate));
}

SentencePieceSampler::SentencePieceSampler(const SentencePieceVocabulary& vocabulary,
                                           const SentencePieceModelFile& model, double rate)
    : vocabulary_(vocabulary),
      rate_(rate),
      spells_unknown_(model.spells_unknown),
      texts_(static_cast<size_t>(vocabulary.size())) {
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].is_text())
      texts_[static_cast<size_t>(vocabulary.ours(static_cast<int32_t>(id)))] = model.pieces[id].text;
  }
  if (model.algorithm == Algorithm::kUnigram) {
    lattice_.emplace(model);
  } else {
    merges_.emplace(model);
  }
}

/// Returns a word as the model's pieces spell it. Where all of its ids are pieces of text, these are known already.
std::string SentencePieceSampler::spelled(std::string_view word) const {
  std::vector<int32_t> ids;
  const std::optional<CachedWord> known = vocabulary_.encode_word(word, ids);
  std::string text;
  if (known) {
    for (const int32_t id : known->ids) {
      const std::string& piece = texts_[static_cast<size_t>(id)];
      if (piece.empty()) return vocabulary_.normalized(word);
      text += piece;
    }
    return text;
  }
  return vocabulary_.normalized(word);
}

template <class Use>
void SentencePieceSampler::for_each_drawn(std::string_view text, Draws& draws, const Use& use) const {
  std::vector<PieceLattice::Part> parts;
  const auto draw = [&](const std::string& normalized) {
    parts.clear();
    if (lattice_) {
      lattice_->sample(normalized, rate_, draws, parts);
    } else {
      merges_->sample(normalized, rate_, draws, parts);
    }
    use(parts);
  };
  if (text.empty()) return;
  if (!vocabulary_.has_words() || text.find(kEscapedBlank) != std::string_view::npos)
    return draw(vocabulary_.normalized(text));
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = vocabulary_.end_of_word(text, begin);
    draw(spelled(text.substr(begin, end - begin)));
    begin = end + 1;
  }
}

std::vector<int32_t> SentencePieceSampler::encode(std::string_view text, Draws& draws) const {
  std::vector<int32_t> ids;
  for_each_drawn(text, draws,
                 [&](const std::vector<PieceLattice::Part>& parts) { vocabulary_.append_ids(parts, ids); });
  return ids;
}

std::vector<std::string> SentencePieceSampler::pieces(std::string_view text, Draws& draws) const {
  std::vector<std::string> pieces;
  for_each_drawn(text, draws, [&](const std::vector<PieceLattice::Part>& parts) {
    bool follows_unknown = false;
    for (const PieceLattice::Part& part : parts) {
      const bool is_unknown = part.id == PieceLattice::kUnknown;
      if (is_unknown && spells_unknown_) {
        for (const char byte : part.text) pieces.push_back(piece_of_byte(byte));
      } else if (is_unknown && follows_unknown) {
        pieces.back() += part.text;
      } else {
        pieces.emplace_back(part.text);
      }
      follows_unknown = is_unknown;
    }
  });
  return pieces;
}

}  // namespace mtf
