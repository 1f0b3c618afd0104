// Formats tables of text with aligned columns.
//
//   TextTable table({{"layer"}, {"shape"}, {"bytes", TextTable::kRight}});
//   table.row({"layer_1", "hidden=1024", "4.096 KB"});
//   table.line("backward");                      // a heading between rows
//   table.fold({0}, 2);                          // rows that differ only in numbers of column 0 become one
//   std::string text = table.to_string();
#pragma once

#include <string>
#include <vector>

namespace mtf {

class TextTable {
 public:
  enum Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = kLeft;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Adds a row with one cell per column; missing cells are empty.
  void row(std::vector<std::string> cells);
  /// Adds a line of text across the columns. Rows before and after it are not folded together.
  void line(std::string text);
  /// Folds three or more rows that differ only in numbers in the columns `names` into one, in the place of
  /// the first: "more/000/kernel", "more/001/kernel", ... become "more/*/kernel". Their number is written
  /// into column `count`.
  void fold(const std::vector<size_t>& names, size_t count);

  bool empty() const { return rows_.empty(); }
  /// Returns the table. Each line is indented by two spaces; columns without any text are omitted.
  std::string to_string() const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool line = false;  ///< true: a line across the columns, with the text cells[0]
  };
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace mtf
