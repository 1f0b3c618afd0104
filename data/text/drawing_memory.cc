#include "data/text/drawing_memory.h"

#include <algorithm>

namespace mtf {
namespace {

/// What a thread holds: a chunk of texts, their tokens, and the possible pieces of a text.
constexpr int64_t kThreadBytes = int64_t{3} << 20;
/// The tokens of a side that wait to be written.
constexpr int64_t kUnwrittenBytes = int64_t{2} << 20;
/// Where the tokens of a text begin, in a list that has doubled its room.
constexpr int64_t kTextBytes = 16;
/// The tokens of a piece, its row and its place there, while rows are packed, sorted and written.
constexpr int64_t kPieceBytes = 96;

}  // namespace

int64_t bytes_of_drawing_texts(int threads, const TokenStore& tokens, int64_t pieces) {
  const auto sides = std::ranges::count_if(kSides, [&](Side side) { return tokens.has(side); });
  const int64_t tokenising =
      threads * kThreadBytes + sides * (kUnwrittenBytes + kTextBytes * tokens.examples());
  return std::max(tokenising, kPieceBytes * pieces);
}

}  // namespace mtf
