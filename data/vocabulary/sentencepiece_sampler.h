// Draws segmentations of texts in the pieces of a SentencePiece model.
//
//   const auto sampler = SentencePieceSampler::make(vocabulary, {SegmentationKind::kMerges, 0.1});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/vocabulary/piece_lattice.h"
#include "data/vocabulary/piece_merges.h"
#include "data/vocabulary/sentencepiece_model.h"
#include "data/vocabulary/sentencepiece_vocabulary.h"
#include "data/vocabulary/subword_sampling.h"

namespace mtf {

class SentencePieceSampler final : public SubwordSampler {
 public:
  /// Returns nullptr if the model is of another kind, or if it has scores above 0 or, with merges, unused pieces.
  static std::unique_ptr<SentencePieceSampler> make(const SentencePieceVocabulary& vocabulary,
                                                    const SubwordSampling& sampling);

  std::vector<int32_t> encode(std::string_view text, Draws& draws) const override;
  /// The pieces themselves; what the model does not know stands as in the normalised text.
  std::vector<std::string> pieces(std::string_view text, Draws& draws) const;

 private:
  SentencePieceSampler(const SentencePieceVocabulary& vocabulary, const SentencePieceModelFile& model,
                       double rate);
  /// Calls use(parts) for each word of the text, or once for a text whose words are not encoded one by one.
  template <class Use>
  void for_each_drawn(std::string_view text, Draws& draws, const Use& use) const;
  std::string spelled(std::string_view word) const;

  const SentencePieceVocabulary& vocabulary_;
  double rate_;
  bool spells_unknown_;
  std::vector<std::string>
      texts_;  ///< what each piece stands for, by the vocabulary's id; empty: it stands for no text
  std::optional<PieceLattice> lattice_;
  std::optional<PieceMerges> merges_;
};

}  // namespace mtf
