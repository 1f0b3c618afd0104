// How the alignment of a text is written: links between words or tokens, or all weights.
//
//   const AlignmentOutput alignment(codec, options.alignment);
//   line += alignment.as_text({.scored = text, .input_words = ..., .target_words = ...});   // " ||| 0-0 1-2"
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/decode/scorer.h"
#include "trainer/decode/text_codec.h"

namespace mtf {

/// Throws Error (kConfig, at `key`) where the form asks for an alignment and the model has no encoder.
void check_alignment(const Session& session, AlignmentForm form, std::string_view key);

/// A text with its alignment; the words of its tokens are kNoWord for ends of sequence.
struct AlignedText {
  const ScoredText& scored;
  std::vector<int32_t> input_words, target_words;
};

class AlignmentOutput {
 public:
  /// `codec` must outlive the object.
  AlignmentOutput(const TextCodec& codec, AlignmentForm form) : codec_(codec), form_(form) {}

  bool is_wanted() const { return form_ != AlignmentForm::kNone; }
  /// Returns " ||| " and the links in Pharaoh format.
  std::string as_text(const AlignedText& text) const;
  /// Adds `alignment`, a list of links, or `input_pieces` and `alignment_weights`, a list for each token that is scored.
  void add_to(nlohmann::ordered_json& object, const AlignedText& text) const;

 private:
  /// Each token of the targets is linked to the token of the inputs with the largest weight, of equal ones the first;
  /// words by their tokens. The links are in order, each once.
  std::vector<std::pair<int32_t, int32_t>> links(const AlignedText& text) const;

  const TextCodec& codec_;
  AlignmentForm form_;
};

}  // namespace mtf
