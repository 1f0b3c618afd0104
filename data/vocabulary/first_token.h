// A vocabulary that puts a token before each text, such as the language of a translation model for many languages.
//
//   const auto vocabulary = with_first_token(read_vocabulary(options), "eng_Latn", mark);
//   vocabulary->encode("A house.")                              // eng_Latn, A, house, .
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/vocabulary/vocabulary.h"

namespace mtf {

/// `vocabulary` itself where `token` is nothing. Throws Error (kConfig, at `mark`) when it has no such piece.
std::unique_ptr<Vocabulary> with_first_token(std::unique_ptr<Vocabulary> vocabulary,
                                             const std::optional<std::string>& token, const Mark& mark);

/// The fingerprint of a vocabulary without its first token, which does not change what ids mean.
std::string_view without_first_token(std::string_view fingerprint);

class FirstTokenVocabulary final : public Vocabulary {
 public:
  /// `token`: an id of the vocabulary.
  FirstTokenVocabulary(std::unique_ptr<Vocabulary> vocabulary, int32_t token);

  int64_t size() const override { return vocabulary_->size(); }
  /// A text that has no tokens stays without.
  std::vector<int32_t> encode(std::string_view text) const override;
  /// The token gives nothing, wherever it stands.
  std::string decode(std::span<const int32_t> ids) const override;
  std::string piece(int32_t id) const override { return vocabulary_->piece(id); }
  bool continues_word(int32_t id) const override { return vocabulary_->continues_word(id); }
  std::optional<int32_t> first_token() const override { return token_; }
  std::string fingerprint() const override;
  std::unique_ptr<SubwordSampler> sampler(const SubwordSampling& sampling) const override;

 private:
  class Sampler;
  std::unique_ptr<Vocabulary> vocabulary_;
  int32_t token_;
};

}  // namespace mtf
