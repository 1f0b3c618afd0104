// The assignment of tokens to rows: examples are filtered by length and packed, and the result is stored in
// the cache directory next to the token store.
//
//   const RowStore rows = open_row_store(store, key, rules, files, cache_directory);
//   for (int64_t p = rows.first(r); p < rows.first(r + 1); ++p)
//     use(rows.begin(side, p), rows.length(side, p));
//
// The file has the safetensors format. It holds `first` int64 [rows + 1], the first piece of each row, and
// for each side `SIDE/begin` int64 [pieces] and `SIDE/length` int32 [pieces], the tokens of each piece.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "data/text/text_report.h"
#include "data/text/token_store.h"

namespace mtf {

class RowStore {
 public:
  /// Opens a file. Throws Error (kCheckpoint) when it does not exist or is damaged, or unless each piece lies within the
  /// tokens, and each row within `row`.
  RowStore(const std::string& path, const TokenStore& tokens, const BySide<int64_t>& row);

  const std::string& path() const { return file_.path(); }
  int64_t rows() const { return static_cast<int64_t>(first_.size()) - 1; }
  /// The index of the first piece of row r. The pieces of the last row end before first(rows()).
  int64_t first(int64_t r) const { return first_[r]; }
  int64_t begin(Side side, int64_t piece) const { return begin_[side][piece]; }
  int32_t length(Side side, int64_t piece) const { return length_[side][piece]; }
  /// The stored statistics. Their `rules` are not stored, so the caller must set them.
  const TextReport& report() const { return report_; }

 private:
  void check(const TokenStore& tokens, const BySide<int64_t>& row) const;

  SafetensorsFile file_;
  TextReport report_;
  std::span<const int64_t> first_;
  BySide<std::span<const int64_t>> begin_;
  BySide<std::span<const int32_t>> length_;
};

/// The numbers of a report as the metadata of a file, and back. Throws Error (kCheckpoint) when one is missing.
std::map<std::string, std::string> stored_numbers(TextReport report);
TextReport stored_report(const SafetensorsFile& file);

/// Opens the rows of `tokens`, whose key is `tokens_key`, for the rules. If the cache does not have them, or has them
/// damaged, makes them and removes old stores; both is reported to `note`. Throws Error (kData), which names `files`,
/// when no example is left.
RowStore open_row_store(const TokenStore& tokens, const std::string& tokens_key, const RowRules& rules,
                        const TextFiles& files, const std::string& cache_directory,
                        const TextProgress& progress = {},
                        const std::function<void(const std::string&)>& note = {});

}  // namespace mtf
