// Which tokens of a token store stand in which row: lengths are filtered, texts packed, and the result is
// kept in the cache directory beside the tokens.
//
//   const RowStore rows = open_row_store(store, rules, key, cache_directory);
//   for (int64_t p = rows.first(r); p < rows.first(r + 1); ++p)
//     use(rows.begin(side, p), rows.length(side, p));
//
// A safetensors file with `first` int64 [rows + 1] and, of each piece of text in the rows, `SIDE/begin` int64
// and `SIDE/length` int32.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "data/text/text_report.h"
#include "data/text/token_store.h"

namespace mtf {

class RowStore {
 public:
  /// Throws Error (kCheckpoint) when the file is not there or damaged.
  explicit RowStore(const std::string& path);

  int64_t rows() const { return static_cast<int64_t>(first_.size()) - 1; }
  /// The first piece of row r; those of the last row end at first(rows()).
  int64_t first(int64_t r) const { return first_[r]; }
  int64_t begin(Side side, int64_t piece) const { return begin_[side][piece]; }
  int32_t length(Side side, int64_t piece) const { return length_[side][piece]; }
  /// Of the rules only as much as was kept: complete it with those it was opened for.
  const TextReport& report() const { return report_; }

  /// Throws Error (kCheckpoint) unless each piece lies within the tokens, and each row within `row`.
  void check(const TokenStore& tokens, const BySide<int64_t>& row) const;

 private:
  SafetensorsFile file_;
  TextReport report_;
  std::span<const int64_t> first_;
  BySide<std::span<const int64_t>> begin_;
  BySide<std::span<const int32_t>> length_;
};

/// Opens the rows of `tokens`, which have the key `tokens_key`, under the rules, or makes them; then old
/// stores are removed, and `note` says so. Throws Error (kData) that names `files` when no example is left.
RowStore open_row_store(const TokenStore& tokens, const std::string& tokens_key, const RowRules& rules,
                        const TextFiles& files, const std::string& cache_directory,
                        const TextProgress& progress = {},
                        const std::function<void(const std::string&)>& note = {});

}  // namespace mtf
