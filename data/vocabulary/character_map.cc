#include "data/vocabulary/character_map.h"

#include <unicode/brkiter.h>
#include <unicode/locid.h>
#include <unicode/utext.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/utf8.h"

namespace mtf {
namespace {

/// Clusters of so many bytes are replaced character by character.
constexpr size_t kLongCluster = 6;

/// The fields of a cell of the trie.
bool has_leaf(uint32_t cell) { return (cell >> 8 & 1) != 0; }
uint32_t label_of(uint32_t cell) { return cell & (uint32_t{1} << 31 | 0xFF); }
size_t offset_of(uint32_t cell) { return size_t{cell >> 10} << ((cell & uint32_t{1} << 9) >> 6); }
size_t value_of_leaf(uint32_t cell) { return cell & ~(uint32_t{1} << 31); }

/// Calls visit(begin, end) for each extended grapheme cluster of the text.
template <class Visit>
void for_each_cluster(std::string_view text, const Visit& visit) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::ranges::all_of(text, is_ascii)) {
    for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
      end = begin + (text.substr(begin, 2) == "\r\n" ? 2 : 1);
      visit(begin, end);
    }
    return;
  }
  UErrorCode error = U_ZERO_ERROR;
  UText* const opened = utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &error);
  const std::unique_ptr<UText, decltype(&utext_close)> units(opened, utext_close);
  const std::unique_ptr<icu::BreakIterator> clusters(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), error));
  MTF_CHECK(U_SUCCESS(error), "grapheme clusters: {}", u_errorName(error));
  clusters->setText(units.get(), error);
  MTF_CHECK(U_SUCCESS(error), "grapheme clusters: {}", u_errorName(error));
  auto begin = static_cast<size_t>(clusters->first());
  for (int32_t end = clusters->next(); end != icu::BreakIterator::DONE; end = clusters->next())
    visit(std::exchange(begin, static_cast<size_t>(end)), static_cast<size_t>(end));
}

}  // namespace

std::optional<CharacterMap> CharacterMap::parse(std::string_view bytes) {
  uint32_t size = 0;
  if (bytes.size() < sizeof(size)) return std::nullopt;
  std::memcpy(&size, bytes.data(), sizeof(size));
  bytes.remove_prefix(sizeof(size));
  if (size == 0 || size % sizeof(uint32_t) != 0 || size > bytes.size()) return std::nullopt;
  std::vector<uint32_t> trie(size / sizeof(uint32_t));
  std::memcpy(trie.data(), bytes.data(), size);
  bytes.remove_prefix(size);
  if (first_invalid_byte(bytes)) return std::nullopt;
  return CharacterMap(std::move(trie), std::string(bytes));
}

/// What replaces the shortest text of the trie that `text` begins with; nothing: there is none.
std::optional<std::string_view> CharacterMap::replacement(std::string_view text) const {
  size_t place = offset_of(trie_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    place ^= byte;
    if (byte == 0 || place >= trie_.size() || label_of(trie_[place]) != byte) return std::nullopt;
    const uint32_t cell = trie_[place];
    place ^= offset_of(cell);
    if (!has_leaf(cell)) continue;
    if (place >= trie_.size()) return std::nullopt;
    const size_t begin = std::min(value_of_leaf(trie_[place]), replacements_.size());
    const std::string_view rest = std::string_view(replacements_).substr(begin);
    return rest.substr(0, rest.find('\0'));
  }
  return std::nullopt;
}

void CharacterMap::append_cluster(std::string_view cluster, std::string& result) const {
  if (cluster.size() < kLongCluster) {
    if (const auto whole = replacement(cluster)) {
      result += *whole;
      return;
    }
  }
  for (size_t begin = 0, end = 0; begin < cluster.size(); begin = end) {
    next_character(cluster, end);
    const std::string_view character = cluster.substr(begin, end - begin);
    result += replacement(character).value_or(character);
  }
}

std::string CharacterMap::apply(std::string_view text) const {
  std::string result;
  result.reserve(text.size());
  for_each_cluster(
      text, [&](size_t begin, size_t end) { append_cluster(text.substr(begin, end - begin), result); });
  return result;
}

}  // namespace mtf
