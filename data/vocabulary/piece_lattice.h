// All segmentations of a word in the pieces of a unigram model: how sure the best one is, and one that is drawn.
//
//   const Segmentation best = lattice.segment("▁Haus");
//   if (cost_of_the_text_so_far + best.cost < best.limit) ...  // whatever stood before the word
//   lattice.append("▁Haus", sum, pieces);                      // where `sum` stood before the word
//   lattice.sample("▁Haus", 0.1, draws, pieces);               // with a probability in proportion to P^0.1
//
// The library adds the scores along the whole text in 32 bits, and the best sum wins: where two segmentations
// of a word have almost the same score, what stands before the word decides by how it rounds the sums.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/draws.h"
#include "data/vocabulary/sentencepiece_model.h"

namespace mtf {

struct Segmentation {
  double cost = 0;   ///< minus the sum of the scores of its pieces
  double limit = 0;  ///< it is the library's choice in all texts whose words cost less, up to this one
};

class PieceLattice {
 public:
  /// The model is a unigram model that has_costs(). For segment() and append() words_are_apart(), too.
  explicit PieceLattice(const SentencePieceModelFile& model);

  /// Returns the best segmentation of a normalised word.
  Segmentation segment(std::string_view word) const;

  /// A piece of a text: its id in the model, or kUnknown for a character that is no piece.
  struct Part {
    int32_t id;
    std::string_view text;
  };
  static constexpr int32_t kUnknown = -1;

  /// Appends the pieces that the library chooses for a normalised word. `sum` is its sum of the scores of the text before
  /// the word, and becomes that with the word.
  void append(std::string_view word, float& sum, std::vector<Part>& parts) const;

  /// Appends the pieces of one segmentation of a normalised text, drawn with a probability in proportion to P^alpha: sums over
  /// all segmentations are made from the front, pieces drawn from the end. Takes about 32 bytes for each piece that is found.
  void sample(std::string_view text, double alpha, Draws& draws, std::vector<Part>& parts) const;

  /// What append() takes from `sum` for a piece, by its id in the model; infinite where it is no piece of text.
  double cost(int32_t id) const { return costs_[static_cast<size_t>(id)]; }

 private:
  struct Piece {
    std::string text;
    double cost;
    int32_t id;
  };

  /// Calls visit(end, piece) for each piece from `begin` to `end` of the word, the shortest first, and with nullptr for a
  /// character that is no piece. Returns the number of bytes of the character.
  template <class Visit>
  size_t visit_pieces(std::string_view word, size_t begin, const Visit& visit) const;

  std::vector<double> costs_;            ///< by id in the model
  std::vector<Piece> pieces_;            ///< in the order of their bytes
  std::array<size_t, 257> begins_ = {};  ///< where those begin whose first byte is at least the index
  double cost_of_unknown_ = 0;           ///< of a character that is no piece
};

}  // namespace mtf
