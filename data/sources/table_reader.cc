#include "data/sources/table_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "data/delimited.h"
#include "data/input_file.h"
#include "data/text/line_reader.h"
#include "data/text/text_problems.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/nearest.h"
#include "engine/base/printable.h"

namespace mtf {
namespace {

/// A value that stands for none.
bool is_missing(std::string_view value) {
  constexpr std::array<std::string_view, 8> kMissing = {"", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"};
  return std::ranges::find(kMissing, value) != kMissing.end();
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

void check_columns(const std::vector<std::string>& columns, const std::string& place) {
  std::set<std::string> seen;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].empty())
      throw Error(ErrorKind::kData, fmt::format("{}: column {} has no name", place, i + 1),
                  "a first line with the names of the columns");
    if (!seen.insert(columns[i]).second)
      throw Error(ErrorKind::kData,
                  fmt::format("{}: two columns are called `{}`", place, printable(columns[i])),
                  "a name for each column");
  }
}

class DelimitedTable final : public TableReader {
 public:
  DelimitedTable(const std::string& path, const TableFormat& format)
      : TableReader(path), reader_(path, delimiter_of(path)), format_(format) {
    if (!reader_.next())
      throw Error(ErrorKind::kData, fmt::format("{}: the file is empty", path),
                  format.header ? "a first line with the names of the columns, then a line for each example"
                                : "a line for each example");
    const std::vector<std::string>& first = reader_.fields();
    for (size_t i = 0; i < first.size(); ++i)
      columns_.push_back(format.header ? std::string(without_blanks(first[i])) : fmt::to_string(i + 1));
    check_columns(columns_, reader_.place());
    is_first_ = !format.header;
  }

  const std::vector<std::string>& columns() const override { return columns_; }
  bool next() override {
    if (!std::exchange(is_first_, false) && !reader_.next()) return false;
    const std::vector<std::string>& fields = reader_.fields();
    if (fields.size() != columns_.size())
      throw Error(
          ErrorKind::kData, fmt::format("{}: {}", place(), counted(std::ssize(fields), "value")),
          fmt::format("{}, as the first line {}", columns_.size(), format_.header ? "names columns" : "has"));
    return true;
  }
  std::optional<std::string> value(size_t column) const override {
    const std::string& field = reader_.fields()[column];
    if (format_.verbatim) return field;
    const std::string_view value = without_blanks(field);
    return is_missing(value) ? std::nullopt : std::optional<std::string>(value);
  }
  std::string place() const override { return reader_.place(); }

 private:
  DelimitedReader reader_;
  TableFormat format_;
  std::vector<std::string> columns_;
  bool is_first_ = false;  ///< the record that was read is the first one, which next() gives
};

class JsonTable final : public TableReader {
 public:
  explicit JsonTable(const std::string& path) : TableReader(path), lines_(path, problems_) {
    if (!read())
      throw Error(ErrorKind::kData, fmt::format("{}: the file is empty", path), "an object in each line");
    if (record_.empty())
      throw Error(ErrorKind::kData, fmt::format("{}: an object without keys", place()),
                  "its keys are the columns: {\"column\": value, ..}");
    for (const auto& [key, value] : record_.items()) columns_.push_back(key);
    check_columns(columns_, place());
    is_first_ = true;
  }

  const std::vector<std::string>& columns() const override { return columns_; }
  bool next() override { return std::exchange(is_first_, false) || read(); }
  std::optional<std::string> value(size_t column) const override {
    const auto found = record_.find(columns_[column]);
    if (found == record_.end()) {
      if (const std::optional<std::string> other = other_key())
        fail(column, fmt::format("a value is missing, and there is a key `{}`", printable(*other)),
             "a value in each line, or null for an empty text");
      return std::nullopt;
    }
    if (found->is_null()) return std::nullopt;
    if (found->is_structured())
      fail(column, "a list or an object",
           "a number, a text, true or false; only keys that are not used may have others");
    if (found->is_boolean()) return found->get<bool>() ? "1" : "0";
    return found->is_string() ? found->get<std::string>() : found->dump();
  }
  std::optional<std::string> other_key() const override {
    for (const auto& [key, value] : record_.items()) {
      if (!std::ranges::binary_search(columns_, key)) return key;
    }
    return std::nullopt;
  }
  std::string place() const override { return fmt::format("{}:{}", lines_.path(), lines_.line()); }

 private:
  /// Reads the object of the next line that is not blank; false at the end.
  bool read() {
    while (const std::optional<std::string_view> line = lines_.next()) {
      problems_.throw_if_any();
      if (without_blanks(*line).empty()) continue;
      try {
        record_ = parse_json(*line, [this](const std::string& key) {
          throw Error(ErrorKind::kData, fmt::format("{}: two values of `{}`", place(), printable(key)),
                      "each key once");
        });
        if (record_.is_object()) return true;
        throw Error(ErrorKind::kData, fmt::format("{}: no object", place()), "{\"column\": value, ..}");
      } catch (const nlohmann::json::exception& error) {
        throw Error(ErrorKind::kData, fmt::format("{}: {}", place(), message_of(error)),
                    "an object in each line: {\"column\": value, ..}");
      }
    }
    problems_.throw_if_any();
    return false;
  }

  TextProblems problems_;
  LineReader lines_;
  std::vector<std::string> columns_;  ///< sorted, as the keys of an object are
  nlohmann::json record_;
  bool is_first_ = false;  ///< the record that was read is the first one, which next() gives
};

bool is_json_lines(std::string_view path) {
  path = without_gz(path);
  return path.ends_with(".jsonl") || path.ends_with(".ndjson");
}

bool is_delimited(std::string_view path) {
  path = without_gz(path);
  return path.ends_with(".csv") || path.ends_with(".tsv");
}

}  // namespace

size_t TableReader::find(const config::Name& name, const Mark& mark) const {
  const auto found = std::ranges::find(columns(), name.text);
  if (found != columns().end()) return static_cast<size_t>(found - columns().begin());
  std::vector<std::string> names;
  for (const std::string& column : columns()) names.push_back(printable(column));
  std::string hint = did_you_mean(name.text, names);
  if (std::ranges::any_of(columns(),
                          [](const std::string& column) { return invalid_utf8(column).has_value(); }))
    hint += fmt::format("; or {}", kConvertToUtf8);
  throw Error(ErrorKind::kConfig, name.mark.known() ? name.mark : mark,
              fmt::format("{} has no column `{}`", path_, printable(name.text)), hint);
}

std::string TableReader::place_of(size_t column) const {
  return fmt::format("{}: column `{}`", place(), printable(columns()[column]));
}

void TableReader::fail(size_t column, const std::string& what, const std::string& hint) const {
  throw Error(ErrorKind::kData, fmt::format("{}: {}", place_of(column), what), hint);
}

void TableReader::check_text(size_t column, const std::string& text) const {
  if (const std::optional<std::string> invalid = invalid_utf8(text))
    fail(column, *invalid, std::string(kConvertToUtf8));
}

bool is_table_name(std::string_view path) { return is_delimited(path) || is_json_lines(path); }

std::optional<float> table_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const char* const end = text.data() + text.size();
  float number = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (rest != end || error == std::errc::invalid_argument || !std::isfinite(number)) return std::nullopt;
  // from_chars() does not tell whether it is too large or too small.
  return error == std::errc() ? number : std::strtof(std::string(text).c_str(), nullptr);
}

std::unique_ptr<TableReader> open_table_reader(const std::string& path, const TableFormat& format) {
  if (is_json_lines(path)) return std::make_unique<JsonTable>(path);
  if (is_delimited(path)) return std::make_unique<DelimitedTable>(path, format);
  throw Error(ErrorKind::kData, fmt::format("{}: the end of the name does not say what the file is", path),
              ".csv, .tsv or .jsonl, or one of them and .gz");
}

}  // namespace mtf
