// Files of subwords made by tensor2tensor (SubwordTextEncoder), with the ids that tensor2tensor gives.
//
//   const std::unique_ptr<Vocabulary> vocabulary =
//   read_t2t_vocabulary("vocab.translate_ende_wmt32k.32768.subwords");
//
// A text is cut where letters and digits (Unicode's categories L and N) meet other characters; a single blank
// between two words is left out. In each part `\` becomes `\\`, `_` becomes `\u`, a newline or a character
// that occurs in no subword its decimal code `\DDD;`, and `_` follows the part. Then the longest subword that
// the rest begins with is taken again and again. UTF-8 comes back as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "data/vocabulary/vocabulary.h"

namespace mtf {

class T2tVocabulary final : public Vocabulary {
 public:
  /// One subword a line, in single quotes, in double quotes or bare; the first two are <pad> and <EOS>, with
  /// or without `_` at the end. `name` is for messages. Throws Error (kData) for another file.
  T2tVocabulary(std::string_view lines, const std::string& name);

  int64_t size() const override { return static_cast<int64_t>(subwords_.size()); }
  /// Bytes that are no UTF-8 become U+FFFD.
  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  std::string piece(int32_t id) const override;
  std::string fingerprint() const override { return fingerprint_; }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  void append_escaped(char32_t character, std::string& text) const;
  void append_part(std::string_view escaped, std::vector<int32_t>& ids) const;
  /// Bytes of the longest subword that `text` begins with, and its id; 0 bytes: there is none.
  size_t longest(std::string_view text, int32_t& id) const;

  std::vector<std::string> subwords_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
  std::unordered_set<char32_t> alphabet_;
  size_t longest_ = 0;  ///< bytes
  std::string fingerprint_;
};

/// Reads a file of subwords, plain or .gz. Throws Error (kData) when it is missing or something else.
std::unique_ptr<Vocabulary> read_t2t_vocabulary(const std::string& path);

}  // namespace mtf
