#include "data/vocabulary/piece_merges.h"

#include <algorithm>

#include "data/vocabulary/merge_symbols.h"

namespace mtf {

/// What a text is before the first merge.
struct PieceMerges::Characters {
  std::vector<MergeSymbol> symbols;
  std::vector<size_t> begins;   ///< [symbols + 1]: the last one is the end of the text
  std::vector<bool> is_frozen;  ///< [symbols]: pieces of a user

  size_t end(const MergeSymbol& symbol) const {
    return symbol.next == kNoSymbol ? begins.back() : begins[static_cast<size_t>(symbol.next)];
  }
};

PieceMerges::PieceMerges(const SentencePieceModelFile& model) {
  std::vector<float> scores;
  for (const SentencePieceModelFile::Piece& piece : model.pieces) {
    if (piece.is_text()) scores.push_back(piece.score);
  }
  std::ranges::sort(scores, std::greater<>());
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceModelFile::Piece& piece = model.pieces[id];
    if (!piece.is_text()) continue;
    const auto rank = std::ranges::lower_bound(scores, piece.score, std::greater<>()) - scores.begin();
    pieces_.emplace(piece.text, Piece{static_cast<int32_t>(id), static_cast<int32_t>(rank)});
    if (piece.type == SentencePieceModelFile::PieceType::kUserDefined && !piece.text.empty())
      user_pieces_[static_cast<uint8_t>(piece.text[0])].push_back(piece.text);
  }
  for (std::vector<std::string>& pieces : user_pieces_)
    std::ranges::sort(pieces, std::greater<>(), &std::string::size);
}

const PieceMerges::Piece* PieceMerges::find(std::string_view text) const {
  const auto found = pieces_.find(text);
  return found == pieces_.end() ? nullptr : &found->second;
}

/// The bytes of the longest piece of a user with which the text begins; 0: there is none.
size_t PieceMerges::length_of_user_piece(std::string_view text) const {
  const std::vector<std::string>& pieces = user_pieces_[static_cast<uint8_t>(text[0])];
  const auto found =
      std::ranges::find_if(pieces, [&](const std::string& piece) { return text.starts_with(piece); });
  return found == pieces.end() ? 0 : found->size();
}

PieceMerges::Characters PieceMerges::characters_of(std::string_view text) const {
  Characters characters;
  std::vector<int32_t> ids;
  for (size_t begin = 0; begin < text.size();) {
    const size_t of_user = length_of_user_piece(text.substr(begin));
    const size_t length = of_user > 0 ? of_user : character_length(text.substr(begin));
    const Piece* const piece = find(text.substr(begin, length));
    // What is no piece has an id of its own, which tells it from its neighbours.
    ids.push_back(piece ? piece->id : kMergedAway - 1 - static_cast<int32_t>(ids.size()));
    characters.begins.push_back(begin);
    characters.is_frozen.push_back(of_user > 0);
    begin += length;
  }
  characters.begins.push_back(text.size());
  characters.symbols = symbols_of(ids);
  return characters;
}

void PieceMerges::sample(std::string_view text, double dropout, Draws& draws,
                         std::vector<PieceLattice::Part>& parts) const {
  Characters characters = characters_of(text);
  std::vector<MergeSymbol>& symbols = characters.symbols;
  const auto text_from = [&](size_t begin, const MergeSymbol& last) {
    return text.substr(begin, characters.end(last) - begin);
  };
  const auto find_merge = [&](int32_t left, int32_t right) -> std::optional<SymbolMerge> {
    const auto first = static_cast<size_t>(left), second = static_cast<size_t>(right);
    if (characters.is_frozen[first] || characters.is_frozen[second]) return std::nullopt;
    const Piece* const piece = find(text_from(characters.begins[first], symbols[second]));
    return piece ? std::optional(SymbolMerge{piece->rank, piece->id}) : std::nullopt;
  };
  const MergeDropout with_dropout{dropout, draws};
  merge_symbols(symbols, find_merge, dropout > 0 ? &with_dropout : nullptr);
  for (size_t i = 0; i < symbols.size(); ++i) {
    const int32_t id = symbols[i].id;
    if (id == kMergedAway) continue;
    parts.push_back({id < 0 ? PieceLattice::kUnknown : id, text_from(characters.begins[i], symbols[i])});
  }
}

}  // namespace mtf
