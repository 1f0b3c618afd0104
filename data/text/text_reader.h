// Reads the examples of a source of text from its files, one after the other.
//
//   const TextFiles files = find_text_files(options, mark, problems);
//   TextProblems text_problems;
//   TextReader reader(files, {}, text_problems);
//   for (TextExample example; reader.next(example);) use(example.inputs.text, example.targets.text);
//   text_problems.throw_if_any();
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/line_splitter.h"
#include "data/text/text_options.h"
#include "data/text/text_problems.h"
#include "data/text/word_alignment.h"

namespace mtf {

/// The files of a source of text.
struct TextFiles {
  SourceChoice options;  ///< TextSourceOptions
  /// Groups of files that are read side by side: {path}, or {inputs, targets} for a parallel source, with alignments as
  /// a third one where it has them.
  std::vector<std::vector<std::string>> groups;
  TextLimit limit = {};  ///< the largest size of each text

  const TextSourceOptions& source() const { return *options.get_if<TextSourceOptions>(); }
};

/// Finds the files that the options name. Paths without a regular file, and lists of parallel files of
/// different lengths (at `mark`), are added to `problems`.
TextFiles find_text_files(const TextSourceOptions& options, const Mark& mark, std::vector<Problem>& problems,
                          const TextLimit& limit = {});

/// A part of a text, up to byte `end`. Its tokens have a loss if it is learned, and otherwise stand before what is.
struct TextPart {
  size_t end = 0;
  bool learned = true;
};

/// One side of an example: text, or token ids.
struct TextField {
  std::string text;
  std::vector<TextPart> parts;  ///< parts that are encoded apart; none: the whole text is learned
  std::vector<int32_t> ids;
  bool has_ids = false;
  std::vector<WordLink> links = {};  ///< those of the targets: their words and the inputs'

  /// True for a text that is empty or blank, and for an empty list of ids.
  bool empty() const;
  /// Divides a text of parts where its last unlearned part ends: what a model is given, and what it writes.
  std::string_view prompt() const { return std::string_view(text).substr(0, end_of_prompt()); }
  std::string_view answer() const { return std::string_view(text).substr(end_of_prompt()); }

 private:
  size_t end_of_prompt() const;
};

/// Both sides of an example; a side that the source does not have is empty.
using TextExample = BySide<TextField>;

/// Reads the examples of one group of files. Each file format is a subclass.
class TextFormat {
 public:
  virtual ~TextFormat() = default;
  virtual bool next(TextExample& example) = 0;
  virtual int64_t bytes_read() const = 0;
};

class TextReader {
 public:
  /// Ids must be below `vocabulary_sizes`; 0: the size is not known. The reader refers to its arguments,
  /// which must outlive it.
  TextReader(const TextFiles& files, const BySide<int64_t>& vocabulary_sizes, TextProblems& problems);

  /// Reads the next example; false after the last. Problems of the files are added to `problems`, and
  /// examples that cannot be read are skipped.
  bool next(TextExample& example);

  /// The number of bytes read so far, and the total size of all files.
  int64_t bytes_read() const;
  int64_t bytes() const { return bytes_; }
  /// The number of blank lines that were skipped.
  int64_t blank_lines() const { return blank_lines_; }
  /// The largest size so far of what the limit of the files applies to: lines, documents and records, in bytes.
  int64_t longest() const { return longest_; }

 private:
  const TextFiles& files_;
  const BySide<int64_t> vocabulary_sizes_;
  TextProblems& problems_;
  std::unique_ptr<TextFormat> format_;
  size_t next_group_ = 0;
  int64_t bytes_ = 0;
  int64_t bytes_of_groups_ = 0;  ///< bytes of the groups that were read completely
  int64_t blank_lines_ = 0;
  int64_t longest_ = 0;
  TextLimit limit_;
};

/// Calls `use` with each text of the source, first the inputs and then the targets of each example, for
/// training a vocabulary. Ids and empty texts are skipped. Throws Error (kData) with all problems of the
/// files.
void for_each_text(const TextFiles& files, const std::function<void(Side, std::string_view)>& use);

}  // namespace mtf
