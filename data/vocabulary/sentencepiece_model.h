// What a .model file of SentencePiece says about pieces and normalisation, which the library does not tell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mtf {

/// A ModelProto of sentencepiece_model.proto, without what is of no use here.
struct SentencePieceModelFile {
  enum class Algorithm : int32_t { kUnigram = 1, kBpe = 2, kWord = 3, kCharacter = 4 };
  enum class PieceType : int32_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6
  };
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::kNormal;

    /// Whether it stands for text that looks like it.
    bool is_text() const { return type == PieceType::kNormal || type == PieceType::kUserDefined; }
  };

  std::vector<Piece> pieces;
  Algorithm algorithm = Algorithm::kUnigram;
  bool blanks_are_suffixes = false;
  bool spells_unknown = false;  ///< characters without a piece are bytes
  std::string normalization;    ///< the name of its rules
  bool adds_blank_in_front = true;
  bool removes_extra_blanks = true;
  bool escapes_blanks = true;
};

/// The character that SentencePiece writes for a blank.
inline constexpr std::string_view kEscapedBlank = "\u2581";

/// Returns the bytes of the first character of a text that is not empty, as the library has it for bytes that are no UTF-8 too.
size_t character_length(std::string_view text);

/// Reads the bytes of a .model file; nullopt if they cannot be parsed.
std::optional<SentencePieceModelFile> parse_sentencepiece_model(std::string_view bytes);

/// Whether the ids of a text are those of its words, one after the other. Words are what stands between blanks
/// (no other white space), without U+2581; one without characters is a U+2581 if the model keeps extra blanks,
/// and nothing otherwise. With a unigram model rounding may still make a difference where two
/// segmentations of a word are almost as good: see PieceLattice.
bool words_are_apart(const SentencePieceModelFile& model);

/// Whether scores add up to costs, as in PieceLattice: none is above 0, and the sums of texts are finite.
bool has_costs(const SentencePieceModelFile& model);

/// Whether some pieces are no longer used.
bool has_unused_pieces(const SentencePieceModelFile& model);

}  // namespace mtf
