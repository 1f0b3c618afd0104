// Reads the records of a CSV, TSV or JSON Lines file as texts.
//
//   const std::unique_ptr<TableReader> reader = open_table_reader("iris.csv");
//   const size_t species = reader->find("species", mark);
//   while (reader->next()) use(reader->place(), reader->value(species));
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config/types.h"

namespace mtf {

/// Names and values of CSV and TSV files may have any bytes: check_text() is for those that are used as texts.
class TableReader {
 public:
  explicit TableReader(std::string path) : path_(std::move(path)) {}
  virtual ~TableReader() = default;

  /// The names of the columns, each of them once: in JSON Lines the keys of the first object.
  virtual const std::vector<std::string>& columns() const = 0;
  /// Reads the next record; false at the end. Throws Error (kData) with file and line.
  virtual bool next() = 0;
  /// Returns the value of the record in a column; nothing for null, for a key that the record lacks, and in CSV and TSV files
  /// for what stands for a missing value. Throws Error (kData) for a list or an object in JSON Lines, and for a record that
  /// has another key in place of the column.
  virtual std::optional<std::string> value(size_t column) const = 0;
  /// A key of the record that is no column, which only JSON Lines may have; nothing if there is none.
  virtual std::optional<std::string> other_key() const { return std::nullopt; }
  /// "PATH:LINE" of the record.
  virtual std::string place() const = 0;

  const std::string& path() const { return path_; }
  /// Returns the index of a column. Throws Error (kConfig), at the mark of the name or else at `mark`, if there is none.
  size_t find(const config::Name& name, const Mark& mark) const;
  /// Throws Error (kData) unless `text`, the name of the column or its value in the record, is UTF-8.
  void check_text(size_t column, const std::string& text) const;
  /// The place of a value of the record, for messages: "PATH:LINE: column `NAME`".
  std::string place_of(size_t column) const;
  /// Throws Error (kData) that begins with place_of(column).
  [[noreturn]] void fail(size_t column, const std::string& what, const std::string& hint) const;

 private:
  std::string path_;
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
