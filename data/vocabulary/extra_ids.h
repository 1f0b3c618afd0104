// A vocabulary with more ids behind those of another one: sentinels, which stand for parts of texts. The last id is
// <extra_id_0>, the one before it <extra_id_1>, as in T5.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/vocabulary/vocabulary.h"

namespace mtf {

/// What T5 has, and the most that a vocabulary may get.
inline constexpr int64_t kUsualExtraIds = 100, kMostExtraIds = 1'000'000;

/// "<extra_id_7>"
std::string extra_piece(int64_t number);

/// `vocabulary` itself where `extra` is 0.
std::unique_ptr<Vocabulary> with_extra_ids(std::unique_ptr<Vocabulary> vocabulary, int64_t extra);

/// The fingerprint of a vocabulary without its extra ids; of one that has none, the same.
std::string_view without_extra_ids(std::string_view fingerprint);

class ExtendedVocabulary final : public Vocabulary {
 public:
  ExtendedVocabulary(std::unique_ptr<Vocabulary> vocabulary, int64_t extra);

  int64_t size() const override { return vocabulary_->size() + extra_; }
  /// Where a text says <extra_id_7> it has this id.
  std::vector<int32_t> encode(std::string_view text) const override;
  /// Sentinels are written as <extra_id_7>, with a blank between them and what is before and behind.
  std::string decode(std::span<const int32_t> ids) const override;
  std::string piece(int32_t id) const override;
  bool continues_word(int32_t id) const override { return vocabulary_->continues_word(id); }
  std::string fingerprint() const override;
  std::unique_ptr<SubwordSampler> sampler(const SubwordSampling& sampling) const override;

 private:
  class Sampler;
  /// `encode` gives the ids of what lies between sentinels.
  template <class Encode>
  std::vector<int32_t> encode_between(std::string_view text, const Encode& encode) const;
  bool is_extra(int32_t id) const { return id >= vocabulary_->size() && id < size(); }

  std::unique_ptr<Vocabulary> vocabulary_;
  int64_t extra_;
};

}  // namespace mtf
