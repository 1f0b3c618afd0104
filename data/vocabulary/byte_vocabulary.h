// The bytes of a text as its tokens: needs no file and loses nothing.
//
//   ByteVocabulary().encode("Hi")   // {75, 108}: byte b is id b + 3
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/vocabulary/vocabulary.h"

namespace mtf {

/// Ids 0 padding, 1 end of sequence, 2 unknown (never made; so the ids are those of ByT5), b + 3 byte b.
class ByteVocabulary final : public Vocabulary {
 public:
  int64_t size() const override;
  std::vector<int32_t> encode(std::string_view text) const override;
  /// The very bytes: what a model has written need not be UTF-8.
  std::string decode(std::span<const int32_t> ids) const override;
  std::string piece(int32_t id) const override;
  std::string fingerprint() const override;
};

}  // namespace mtf
