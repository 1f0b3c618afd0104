// Lines of text as what a model reads, and what it has written as lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trainer/decode/decoder.h"

namespace mtf {

/// Tells on standard error that so many lines were cut; nothing when none was.
void warn_of_cuts(int64_t lines);

class TextCodec {
 public:
  /// Throws Error (kConfig) when the model writes no texts or there is no vocabulary.
  TextCodec(const Session& session, const DecodeOptions& options);

  /// `line`: what the encoder reads, or without an encoder how the text begins. `prefix`: how what is written
  /// begins besides. What is too long for the model's positions is cut: of inputs the end, of prefixes the
  /// beginning; `was_cut` then becomes true.
  GivenText given(std::string_view line, std::string_view prefix, uint64_t number, bool& was_cut) const;
  /// The same for many lines, without prefixes.
  std::vector<GivenText> given_lines(const std::vector<std::string>& lines) const;
  /// A line as tokens that the model may write, without end of sequence.
  std::vector<int32_t> written_ids(std::string_view line, bool& was_cut) const;
  /// The text of a hypothesis, without the end of sequence. `with_prefix`: what was given included.
  std::string text(const GivenText& given, const Hypothesis& hypothesis, bool with_prefix) const;
  /// The model reads a line; otherwise it goes on with it.
  bool has_encoder() const { return decoder_.has_encoder(); }
  const Vocabulary& written() const { return *vocabularies_.targets; }

 private:
  std::vector<int32_t> encode(const Vocabulary& vocabulary, std::string_view text) const;

  const TextDecoder& decoder_;
  TextVocabularies vocabularies_;
  DecodeOptions options_;
  bool lowercase_;
};

}  // namespace mtf
