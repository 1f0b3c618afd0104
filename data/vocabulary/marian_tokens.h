// The tokens of a translation model of Marian (OPUS-MT) or of an M2M100 in Hugging Face form and their ids: vocab.json, an
// object of both.
//
//   const MarianTokens tokens = read_marian_tokens("opus-mt-en-de/vocab.json");
//   tokens.id("</s>")                  // 0
//   file_ids_of(tokens.file_ids())     // here padding is id 0 and `</s>` id 1 (renumbering.h)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/vocabulary/renumbering.h"

namespace mtf {

class MarianTokens {
 public:
  /// `name` is for messages; `added` are tokens behind those of the file. Throws Error (kData) for a damaged file, for one
  /// without `<pad>`, `</s>` or `<unk>`, and for an added token that it has.
  MarianTokens(std::string_view json, std::string name, const std::vector<std::string>& added = {});

  /// The largest id and one more.
  int64_t size() const { return std::ssize(tokens_); }
  std::optional<int32_t> id(std::string_view token) const;
  /// Empty where the file has no token.
  const std::string& token(int32_t id) const;
  /// `size`: ids of the model, of which the last may have no token; nothing: those of the file. Throws Error (kData) if they
  /// are fewer than the file has.
  FileIds file_ids(std::optional<int64_t> size = {}) const;
  int32_t unknown() const { return unknown_; }
  /// The bytes of an added token at the beginning of a text; 0: there is none.
  size_t added_before(std::string_view text) const;
  /// Equal for files with the same bytes and the same added tokens.
  const std::string& hash() const { return hash_; }

 private:
  int32_t required(std::string_view token) const;

  std::string name_, hash_;
  std::vector<std::string> tokens_;
  int64_t of_file_ = 0;  ///< so many of them are the file's
  std::unordered_map<std::string, int32_t> ids_;
  int32_t padding_ = 0, end_ = 0, unknown_ = 0;
};

/// Reads a vocab.json, plain or .gz. Throws as the constructor does, and when the file is missing.
MarianTokens read_marian_tokens(const std::string& path, const std::vector<std::string>& added = {});

}  // namespace mtf
