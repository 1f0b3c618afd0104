// Reads the records of a CSV, TSV or JSON Lines file as texts in UTF-8.
//
//   const std::unique_ptr<TableReader> reader = open_table_reader("iris.csv");
//   while (reader->next()) use(reader->place(), reader->columns(), reader->values());
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mtf {

class TableReader {
 public:
  virtual ~TableReader() = default;

  /// The names of the columns, each of them once.
  virtual const std::vector<std::string>& columns() const = 0;
  /// Reads the next record; false at the end. Throws Error (kData) with file and line, also where a value is not UTF-8.
  virtual bool next() = 0;
  /// The values of the record by column; nothing where a value is missing.
  virtual const std::vector<std::optional<std::string>>& values() const = 0;
  /// "PATH:LINE" of the record.
  virtual std::string place() const = 0;
};

struct TableFormat {
  /// The first line of a CSV or TSV file names the columns; false: they are called 1, 2, 3, ...
  bool header = true;
  /// Values are texts: blanks around them stay, and none of their words means a missing value.
  bool verbatim = false;
};

/// True for a name that ends in .csv, .tsv, .jsonl or .ndjson, or one of them and .gz.
bool is_table_name(std::string_view path);

/// Returns the number of 32 bits that is nearest to a text such as "-1.5" or "+2e3": 0 where it is too small for them,
/// infinity where it is too large. Nothing if the text is no finite number.
std::optional<float> table_number(std::string_view text);

/// Opens a file by the end of its name: .csv, .tsv or .jsonl, plain or .gz. Throws Error (kData): another name, no record,
/// a column without a name or with that of another.
std::unique_ptr<TableReader> open_table_reader(const std::string& path, const TableFormat& format = {});

}  // namespace mtf
