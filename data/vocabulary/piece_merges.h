// The merges of a byte pair model of SentencePiece: neighbours become one wherever the model has what they spell as a piece.
//
//   PieceMerges(model).sample("▁Haus", 0.1, draws, parts);
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/draws.h"
#include "data/vocabulary/piece_lattice.h"
#include "data/vocabulary/sentencepiece_model.h"

namespace mtf {

/// Immutable: several threads may use one.
class PieceMerges {
 public:
  /// The model has no unused pieces.
  explicit PieceMerges(const SentencePieceModelFile& model);

  /// Appends the pieces of a normalised text under BPE dropout: those of the library where `dropout` is 0. Pieces of a user
  /// are never divided.
  void sample(std::string_view text, double dropout, Draws& draws,
              std::vector<PieceLattice::Part>& parts) const;

 private:
  struct Piece {
    int32_t id;
    int32_t rank;  ///< equal for equal scores
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  struct Characters;

  Characters characters_of(std::string_view text) const;
  size_t length_of_user_piece(std::string_view text) const;
  const Piece* find(std::string_view text) const;

  std::unordered_map<std::string, Piece, Hash, std::equal_to<>> pieces_;
  std::array<std::vector<std::string>, 256> user_pieces_;  ///< by their first byte, the longest first
};

}  // namespace mtf
