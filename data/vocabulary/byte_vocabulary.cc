#include "data/vocabulary/byte_vocabulary.h"

#include "data/vocabulary/byte_piece.h"

namespace mtf {
namespace {

constexpr int32_t kFirstByteId = 3;
constexpr int32_t kSize = kFirstByteId + 256;

}  // namespace

int64_t ByteVocabulary::size() const { return kSize; }

std::vector<int32_t> ByteVocabulary::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size());
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte) + kFirstByteId);
  return ids;
}

std::string ByteVocabulary::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    if (id == kEosId) break;
    if (id >= kFirstByteId && id < kSize) text += static_cast<char>(id - kFirstByteId);
  }
  return text;
}

std::string ByteVocabulary::piece(int32_t id) const {
  constexpr std::string_view kSpecial[kFirstByteId] = {"<pad>", "</s>", "<unk>"};
  if (id < 0 || id >= kSize) return {};
  if (id < kFirstByteId) return std::string(kSpecial[id]);
  const int byte = id - kFirstByteId;
  const bool visible = byte > ' ' && byte < 0x7f;
  return visible ? std::string(1, static_cast<char>(byte)) : piece_of_byte(static_cast<char>(byte));
}

std::string ByteVocabulary::fingerprint() const { return "bytes"; }

}  // namespace mtf
