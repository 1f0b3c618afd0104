// Converts lines of text to the input of decoding, and its results to lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/decode/decoder.h"

namespace mtf {

/// Returns a text as one line, with blanks for the ends of its lines.
std::string one_line(std::string text);

/// Prints a warning to standard error if `lines`, the number of lines that were cut, is not 0.
void warn_of_cuts(int64_t lines);

class TextCodec {
 public:
  /// Throws Error (kConfig) when the model does not generate texts or has no vocabulary.
  TextCodec(const Session& session, const DecodeOptions& options);

  /// Returns the input of decoding for a line. The encoder reads `line`, if it is not blank; without encoder the text begins
  /// with it. The written text then begins with the first token of the vocabulary, where it has one, and `prefix`. If the
  /// result exceeds the model's number of positions, the end of an encoder's input or the beginning of a prefix is cut off and
  /// `was_cut` is set. `parts`: LinePair::prompt_parts.
  GivenText given(std::string_view line, std::string_view prefix, uint64_t number, bool& was_cut,
                  std::span<const size_t> parts = {}) const;
  /// Returns given() for each line, without prefixes, numbered from 0.
  std::vector<GivenText> given_lines(const std::vector<std::string>& lines) const;
  /// Encodes a line as tokens of the written text, without end-of-sequence token.
  std::vector<int32_t> written_ids(std::string_view line, bool& was_cut) const;
  /// Returns the word of each token of given(line).inputs, or of written_ids(line) and what follows them
  /// (data/text/token_words.h).
  std::vector<int32_t> input_words(std::string_view line, std::span<const int32_t> ids) const;
  std::vector<int32_t> written_words(std::string_view line, std::span<const int32_t> ids) const;
  /// True for a token of `stop_tokens`, which is no part of the text that it ends.
  bool is_stop_token(int32_t token) const;
  /// Returns the text of a hypothesis, up to where it stops; `with_prefix` includes the prefix.
  std::string text(const GivenText& given, const Hypothesis& hypothesis, bool with_prefix) const;
  /// True if an encoder reads the line; otherwise the model continues the line.
  bool has_encoder() const { return decoder_.has_encoder(); }
  /// The vocabulary of what the encoder reads.
  const Vocabulary& read() const { return *vocabularies_.inputs; }
  const Vocabulary& written() const { return *vocabularies_.targets; }

 private:
  std::vector<int32_t> encode(const Vocabulary& vocabulary, std::string_view text) const;
  std::vector<int32_t> words(const Vocabulary& vocabulary, std::string_view line,
                             std::span<const int32_t> ids) const;

  const TextDecoder& decoder_;
  TextVocabularies vocabularies_;
  DecodeOptions options_;
  std::vector<int32_t> stop_tokens_;
  bool lowercase_;
  bool ends_prompts_;  ///< an end-of-sequence token stands behind a line that the model continues
};

}  // namespace mtf
