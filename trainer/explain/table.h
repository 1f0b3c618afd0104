// Tables of text with aligned columns.
//
//   TextTable table({{"layer"}, {"shape"}, {"bytes", TextTable::kRight}});
//   table.row({"layer_1", "hidden=1024", "4.096 KB"});
//   table.line("backward");                      // a line of its own between rows
//   table.fold({0}, 2);                          // rows that differ in numbers of column 0 alone become one
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

  /// One cell for each column; those that are missing are empty.
  void row(std::vector<std::string> cells);
  /// A line across the columns; rows on its two sides are not folded together.
  void line(std::string text);
  /// Three and more rows that are equal except for numbers in the columns `names` become one, at the place of
  /// the first: "more/000/kernel", "more/001/kernel", ... -> "more/*/kernel". How many they are goes to
  /// column `count`.
  void fold(const std::vector<size_t>& names, size_t count);

  bool empty() const { return rows_.empty(); }
  /// Each line indented by two spaces; columns without any text are left out.
  std::string to_string() const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool line = false;  ///< cells[0] is its text
  };
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace mtf
