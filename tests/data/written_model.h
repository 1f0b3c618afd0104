// Writes models of SentencePiece, for tests.
#pragma once

#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <string>

#include "data/vocabulary/sentencepiece_model.h"

namespace mtf {

/// The bytes of a .model file, of pieces without rules of normalisation.
inline std::string written_model(const SentencePieceModelFile& model, bool byte_fallback = false) {
  std::string bytes;
  protozero::pbf_writer message(bytes);
  for (const SentencePieceModelFile::Piece& piece : model.pieces) {
    protozero::pbf_writer part(message, 1);
    part.add_string(1, piece.text);
    part.add_float(2, piece.score);
    part.add_enum(3, static_cast<int32_t>(piece.type));
  }
  {
    protozero::pbf_writer trainer(message, 2);
    trainer.add_enum(3, static_cast<int32_t>(model.algorithm));
    trainer.add_bool(24, model.blanks_are_suffixes);
    trainer.add_bool(35, byte_fallback);
  }
  protozero::pbf_writer normalizer(message, 3);
  normalizer.add_string(1, model.normalization);
  normalizer.add_bool(3, model.adds_blank_in_front);
  normalizer.add_bool(4, model.removes_extra_blanks);
  normalizer.add_bool(5, model.escapes_blanks);
  return bytes;
}

}  // namespace mtf
