#include "data/vocabulary/sentencepiece_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <protozero/pbf_reader.hpp>
#include <utility>

#include "engine/base/utf8.h"

namespace mtf {
namespace {

using protozero::pbf_wire_type;
using protozero::tag_and_type;
// Field numbers of sentencepiece_model.proto.
namespace model_field {
constexpr protozero::pbf_tag_type pieces = 1, trainer = 2, normalizer = 3;
}
namespace piece_field {
constexpr protozero::pbf_tag_type text = 1, score = 2, type = 3;
}
namespace trainer_field {
constexpr protozero::pbf_tag_type algorithm = 3, blanks_are_suffixes = 24, spells_unknown = 35;
}
namespace normalizer_field {
constexpr protozero::pbf_tag_type name = 1, adds_blank_in_front = 3, removes_extra_blanks = 4,
                                  escapes_blanks = 5;
}

/// Reads the next number into `value` unless the enumeration, which ends with `last`, has no such value:
/// protocol buffers pass over it.
template <class Enumeration>
void read_enum(protozero::pbf_reader& message, Enumeration last, Enumeration& value) {
  const int32_t number = message.get_enum();
  if (number >= 1 && number <= static_cast<int32_t>(last)) value = static_cast<Enumeration>(number);
}

SentencePieceModelFile::Piece parse_piece(protozero::pbf_reader message) {
  SentencePieceModelFile::Piece piece;
  while (message.next()) {
    switch (message.tag_and_type()) {
      case tag_and_type(piece_field::text, pbf_wire_type::length_delimited):
        piece.text = message.get_string();
        break;
      case tag_and_type(piece_field::score, pbf_wire_type::fixed32):
        piece.score = message.get_float();
        break;
      case tag_and_type(piece_field::type, pbf_wire_type::varint):
        read_enum(message, SentencePieceModelFile::PieceType::kByte, piece.type);
        break;
      default:
        message.skip();
    }
  }
  return piece;
}

void parse_trainer(protozero::pbf_reader message, SentencePieceModelFile& model) {
  while (message.next()) {
    switch (message.tag_and_type()) {
      case tag_and_type(trainer_field::algorithm, pbf_wire_type::varint):
        read_enum(message, SentencePieceModelFile::Algorithm::kCharacter, model.algorithm);
        break;
      case tag_and_type(trainer_field::blanks_are_suffixes, pbf_wire_type::varint):
        model.blanks_are_suffixes = message.get_bool();
        break;
      case tag_and_type(trainer_field::spells_unknown, pbf_wire_type::varint):
        model.spells_unknown = message.get_bool();
        break;
      default:
        message.skip();
    }
  }
}

void parse_normalizer(protozero::pbf_reader message, SentencePieceModelFile& model) {
  while (message.next()) {
    switch (message.tag_and_type()) {
      case tag_and_type(normalizer_field::name, pbf_wire_type::length_delimited):
        model.normalization = message.get_string();
        break;
      case tag_and_type(normalizer_field::adds_blank_in_front, pbf_wire_type::varint):
        model.adds_blank_in_front = message.get_bool();
        break;
      case tag_and_type(normalizer_field::removes_extra_blanks, pbf_wire_type::varint):
        model.removes_extra_blanks = message.get_bool();
        break;
      case tag_and_type(normalizer_field::escapes_blanks, pbf_wire_type::varint):
        model.escapes_blanks = message.get_bool();
        break;
      default:
        message.skip();
    }
  }
}

SentencePieceModelFile parse(protozero::pbf_reader message) {
  SentencePieceModelFile model;
  while (message.next()) {
    switch (message.tag_and_type()) {
      case tag_and_type(model_field::pieces, pbf_wire_type::length_delimited):
        model.pieces.push_back(parse_piece(message.get_message()));
        break;
      case tag_and_type(model_field::trainer, pbf_wire_type::length_delimited):
        parse_trainer(message.get_message(), model);
        break;
      case tag_and_type(model_field::normalizer, pbf_wire_type::length_delimited):
        parse_normalizer(message.get_message(), model);
        break;
      default:
        message.skip();
    }
  }
  return model;
}

/// With lower ones the sum of a long text might not be finite.
constexpr float kLeastScore = -1e30F;

/// No sequence of characters that the library's own rules replace has a blank in it; one of other rules
/// ("user_defined") might.
bool normalizes_words_apart(const SentencePieceModelFile& model) {
  constexpr std::array<std::string_view, 5> kRules = {"nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf",
                                                      "identity"};
  // Each word gets a U+2581 in front, also the first one. Other blanks at its ends go, or all of them stay.
  return std::ranges::find(kRules, model.normalization) != kRules.end() && model.adds_blank_in_front &&
         model.escapes_blanks && !model.blanks_are_suffixes;
}

/// Whether the piece lies within one word, wherever it is found in a text.
bool is_within_word(const SentencePieceModelFile::Piece& piece) {
  const std::string_view text = piece.text;
  return text.find(kEscapedBlank, 1) == std::string_view::npos && text.find(' ') == std::string_view::npos &&
         text.find('\0') == std::string_view::npos && !first_invalid_byte(text);
}

}  // namespace

size_t character_length(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  const size_t length = first < 0xC0 ? 1 : static_cast<size_t>(std::min(std::countl_one(first), 4));
  return std::min(length, text.size());
}

std::optional<SentencePieceModelFile> parse_sentencepiece_model(std::string_view bytes) {
  try {
    return parse(protozero::pbf_reader(bytes.data(), bytes.size()));
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
}

bool has_costs(const SentencePieceModelFile& model) {
  const auto is_normal = [](const SentencePieceModelFile::Piece& piece) {
    return piece.type == SentencePieceModelFile::PieceType::kNormal;
  };
  return std::ranges::any_of(model.pieces, is_normal) &&
         std::ranges::all_of(model.pieces, [&](const SentencePieceModelFile::Piece& piece) {
           return !is_normal(piece) || (piece.score <= 0 && piece.score >= kLeastScore);
         });
}

bool has_unused_pieces(const SentencePieceModelFile& model) {
  return std::ranges::any_of(model.pieces, [](const SentencePieceModelFile::Piece& piece) {
    return piece.type == SentencePieceModelFile::PieceType::kUnused;
  });
}

bool words_are_apart(const SentencePieceModelFile& model) {
  // The library makes one token of unknown pieces that follow each other. Those of two words never do where
  // U+2581, with which each begins, is a piece.
  const auto is_blank = [](const SentencePieceModelFile::Piece& piece) {
    return piece.text == kEscapedBlank;
  };
  const auto blank = std::ranges::find_if(model.pieces, is_blank);
  const bool words_begin_known =
      blank != model.pieces.end() && blank->is_text() && std::ranges::count_if(model.pieces, is_blank) == 1;
  if (!normalizes_words_apart(model) || !words_begin_known ||
      !std::ranges::all_of(model.pieces, is_within_word))
    return false;
  switch (model.algorithm) {
    case SentencePieceModelFile::Algorithm::kUnigram:
      return has_costs(model);
    case SentencePieceModelFile::Algorithm::kBpe:
      // Merges in one word do not change their order in another. But how an unused piece is taken apart is
      // kept for the whole text: as it was put together last.
      return !has_unused_pieces(model);
    default:
      return false;
  }
}

}  // namespace mtf
