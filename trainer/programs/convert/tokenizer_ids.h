// The tokens of a tokeniser in Hugging Face form and their ids: `tokenizer.json`, whatever kind of tokeniser it describes.
//
//   const TokenizerIds ids("SmolLM2-135M/tokenizer.json");
//   ids.token(2)                  // "<|im_end|>"
//   ids.id("<|im_end|>")          // 2
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mtf {

class TokenizerIds {
 public:
  /// Throws Error (kCheckpoint) for a missing or damaged file.
  explicit TokenizerIds(const std::string& path);
  /// The same for the text of such a file, which `path` names in messages.
  TokenizerIds(const std::string& text, const std::string& path);

  /// Removes added tokens with ids from `size` on, which have no row in a model of so many ids; returns them.
  std::vector<std::string> drop_added_from(int64_t size);

  /// Return nullopt where there is none.
  std::optional<std::string> token(int64_t id) const;
  std::optional<int32_t> id(const std::string& token) const;
  /// The kind of its model: "BPE", "Unigram", "WordPiece"; empty in files of old versions.
  const std::string& model_type() const { return model_type_; }
  /// The largest id and one more.
  int64_t size() const { return tokens_.empty() ? 0 : int64_t{tokens_.rbegin()->first} + 1; }

 private:
  std::map<int32_t, std::string> tokens_;
  std::map<std::string, int32_t> ids_;
  std::set<int32_t> added_;
  std::string model_type_;
};

}  // namespace mtf
