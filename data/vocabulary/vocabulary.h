// Texts as token ids and back. Id 0 is padding, id 1 ends a sequence; encode() adds neither, but a text may spell out the
// token that id 1 is.
//
//   const std::unique_ptr<Vocabulary> vocabulary = read_vocabulary(options, mark);
//   std::vector<int32_t> ids = vocabulary->encode("Ein Haus .");
//   std::string text = vocabulary->decode(ids);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/vocabulary/subword_sampling.h"
#include "engine/base/error.h"

namespace mtf {

inline constexpr int32_t kPadId = 0;
inline constexpr int32_t kEosId = 1;

/// A larger file is no vocabulary: millions of pieces take a tenth of it.
inline constexpr int64_t kLargestVocabularyFile = int64_t{256} << 20;

/// Immutable: several threads may use one.
class Vocabulary {
 public:
  virtual ~Vocabulary() = default;

  /// Number of ids, padding and end of sequence included; not rounded up.
  virtual int64_t size() const = 0;
  /// Any bytes are allowed; what the vocabulary does not know becomes its unknown id or bytes.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  /// The text of `ids` up to the first end of sequence; padding and ids outside 0 .. size() - 1 give nothing.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
  /// One token as a person reads it ("▁Haus", "<0xE4>", "</s>").
  virtual std::string piece(int32_t id) const = 0;
  /// Whether a token goes on with the word of the token before it.
  virtual bool continues_word(int32_t /*id*/) const { return false; }
  /// Equal for vocabularies that encode alike: part of the key under which tokenised texts are kept.
  virtual std::string fingerprint() const = 0;
  /// The token that encode() puts before each text.
  virtual std::optional<int32_t> first_token() const { return std::nullopt; }
  /// Returns what draws segmentations of texts; nullptr if the vocabulary does not find its pieces in this way.
  virtual std::unique_ptr<SubwordSampler> sampler(const SubwordSampling& /*sampling*/) const {
    return nullptr;
  }
};

}  // namespace mtf
