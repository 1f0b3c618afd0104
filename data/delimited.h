// Reads files of values between commas (CSV, RFC 4180) or tab characters (TSV), plain or .gz.
//
//   DelimitedReader reader("iris.csv", Delimiter::kComma);
//   while (reader.next()) use(reader.line(), reader.fields());
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/input_file.h"

namespace mtf {

/// kComma: a value may stand in quotes, "a ""b"", c". kTab: quotes have no meaning.
enum class Delimiter { kComma, kTab };

/// kTab for names that end in .tsv or .tsv.gz.
Delimiter delimiter_of(std::string_view path);

class DelimitedReader {
 public:
  /// Throws Error (kData) when the file cannot be opened.
  DelimitedReader(const std::string& path, Delimiter delimiter);

  /// Reads the next record that is not a blank line; false at the end of the file. A byte order mark and line ends ("\n"
  /// or "\r\n") are left out. Throws Error (kData) with path and line: a quote that is not closed, text after a quote, a
  /// record of more than kMostBytes or kMostFields.
  bool next();

  const std::vector<std::string>& fields() const { return fields_; }
  /// The line on which the record begins; the first is 1.
  int64_t line() const { return line_; }
  /// "PATH:LINE"
  std::string place() const;

  static constexpr size_t kMostBytes = 16 << 20, kMostFields = 1 << 20;

 private:
  /// Returns the next byte, or -1 at the end.
  int take();
  int peek();
  void read_quoted();
  void append(int byte);
  [[noreturn]] void fail(const std::string& what, const std::string& hint) const;

  InputFile file_;
  char separator_;
  bool quotes_;
  std::vector<char> buffer_;
  size_t at_ = 0, end_ = 0;
  std::vector<std::string> fields_;
  std::string field_;
  size_t record_bytes_ = 0;
  int64_t line_ = 0, next_line_ = 1;
};

}  // namespace mtf
