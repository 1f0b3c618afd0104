// The examples of a source of text as they stand in its files, one after the other.
//
//   const TextFiles files = find_text_files(options, mark, problems);
//   TextReader reader(files, {}, text_problems);
//   for (TextExample example; reader.next(example);) use(example.inputs.text, example.targets.text);
//   text_problems.throw_if_any();
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/text/line_splitter.h"
#include "data/text/text_options.h"
#include "data/text/text_problems.h"

namespace mtf {

/// A source of text whose files were found.
struct TextFiles {
  SourceChoice options;  ///< TextSourceOptions
  /// Files that are read side by side: {path}, or of a parallel source {inputs, targets}.
  std::vector<std::vector<std::string>> groups;
  TextLimit limit = {};  ///< of each example

  const TextSourceOptions& source() const { return *options.get_if<TextSourceOptions>(); }
};

/// The files that the options name. Paths that lead to no file, to no regular file, and lists of parallel
/// files of different lengths (at `mark`) are added to `problems`.
TextFiles find_text_files(const TextSourceOptions& options, const Mark& mark, std::vector<Problem>& problems,
                          const TextLimit& limit = {});

/// One side of an example: text, or token ids.
struct TextField {
  std::string text;
  std::vector<int32_t> ids;
  bool has_ids = false;

  /// True for text of blanks alone and for a list without ids.
  bool empty() const;
};

/// Sides that the source does not have stay empty.
using TextExample = BySide<TextField>;

/// Reads the examples of one group of files; a format each.
class TextFormat {
 public:
  virtual ~TextFormat() = default;
  virtual bool next(TextExample& example) = 0;
  virtual int64_t bytes_read() const = 0;
};

class TextReader {
 public:
  /// Ids are checked to be below `vocabulary_sizes`; 0: not known. Refers to its arguments.
  TextReader(const TextFiles& files, const BySide<int64_t>& vocabulary_sizes, TextProblems& problems);

  /// The next example; false after the last. What is wrong with the files is added to the problems, and an
  /// example is left out when it cannot be read.
  bool next(TextExample& example);

  /// Bytes of the files that were read so far, and of all files.
  int64_t bytes_read() const;
  int64_t bytes() const { return bytes_; }
  /// Blank lines that were passed over.
  int64_t blank_lines() const { return blank_lines_; }

 private:
  const TextFiles& files_;
  const BySide<int64_t> vocabulary_sizes_;
  TextProblems& problems_;
  std::unique_ptr<TextFormat> format_;
  size_t next_group_ = 0;
  int64_t bytes_ = 0;
  int64_t bytes_of_groups_ = 0;  ///< of the groups that were read to their ends
  int64_t blank_lines_ = 0;
};

/// Calls `use` with each text of the source, inputs and targets of an example one after the other; ids are
/// passed over. For training a vocabulary. Throws Error (kData) with all that is wrong with the files.
void for_each_text(const TextFiles& files, const std::function<void(Side, std::string_view)>& use);

}  // namespace mtf
