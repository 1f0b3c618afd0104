// A normaliser of SentencePiece, compiled to a trie of the texts that it replaces (precompiled_charsmap), as the library
// `tokenizers` applies it.
//
//   const std::optional<CharacterMap> map = CharacterMap::parse(bytes);
//   map->apply("\ufb01ne")   // "fine"
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mtf {

/// Immutable: several threads may use one.
class CharacterMap {
 public:
  /// `bytes`: the size of a double-array trie (darts-clone) as 4 bytes, the trie, and the replacements, each of which ends
  /// with a zero byte. Returns nullopt for something else.
  static std::optional<CharacterMap> parse(std::string_view bytes);

  /// Returns a text in valid UTF-8 after all replacements. Characters that a reader takes for one (Unicode's extended grapheme
  /// clusters) are replaced together where they have fewer than 6 bytes and begin with a text of the trie, otherwise one by
  /// one.
  std::string apply(std::string_view text) const;

 private:
  CharacterMap(std::vector<uint32_t> trie, std::string replacements)
      : trie_(std::move(trie)), replacements_(std::move(replacements)) {}

  std::optional<std::string_view> replacement(std::string_view text) const;
  void append_cluster(std::string_view cluster, std::string& result) const;

  std::vector<uint32_t> trie_;
  std::string replacements_;
};

}  // namespace mtf
