// Examples that a trained model of texts is given as lines: a text in each line, a text and its pair with a tab between them,
// words with blanks between them, or a question and a text with a tab between them.
//
//   const LineExamples examples(session, LineKind::kTexts);
//   const std::shared_ptr<const Source> source = examples.open(lines, first_line);
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/labelled/squad.h"
#include "data/source.h"
#include "data/text/text_settings.h"
#include "trainer/session/session.h"

namespace mtf {

enum class LineKind { kTexts, kWords, kQuestions };

class LineExamples {
 public:
  /// Texts become rows as those of data.train do: with its tokens around them, its windows, and in pairs if it has pairs.
  /// Throws Error (kConfig) when the configuration has no vocabulary or no length of rows.
  LineExamples(const Session& session, LineKind kind);

  /// Features of all sources that open() returns.
  const std::vector<Feature>& features() const { return features_; }
  /// Returns the examples of lines, of which the first is line `first` of the input, from 0. Throws Error (kData) for a
  /// line without the tab that it must have.
  std::shared_ptr<const Source> open(const std::vector<std::string>& lines, int64_t first) const;

 private:
  SourceContext context_;
  LineKind kind_;
  std::string input_;  ///< its name in messages
  bool in_pairs_ = false;
  SpecialTokenOptions special_tokens_;
  SquadOptions squad_;
  std::vector<Feature> features_;
};

}  // namespace mtf
