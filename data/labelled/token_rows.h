// Rows of token ids of different lengths in memory, and the features that models of texts read:
//
//   inputs               int32 [length]   the token ids, 0 in the padding
//   inputs_segmentation  int32 [length]   1 where there is a token, 0 in the padding
//   inputs_type          int32 [length]   0 in the first text and the padding, 1 in the second text
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "data/source.h"
#include "data/text/text_settings.h"

namespace mtf {

/// The tokens of one row. Those from `second` on belong to the second text.
struct TokenRow {
  std::vector<int32_t> ids;
  int64_t second = 0;
};

class TokenRows {
 public:
  TokenRows(int64_t length, int64_t vocabulary) : length_(length), vocabulary_(vocabulary) {}

  /// Adds a row of at most length() tokens.
  void add(const TokenRow& row);

  int64_t rows() const { return std::ssize(second_); }
  /// The number of tokens that a row has room for.
  int64_t length() const { return length_; }
  std::span<const int32_t> ids(int64_t row) const;
  int64_t second(int64_t row) const { return second_[static_cast<size_t>(row)]; }
  int64_t bytes_in_memory() const;

  /// The number of features that features() has and read() fills.
  static constexpr size_t kFeatures = 3;
  /// `pairs`: rows have a second text.
  static std::vector<Feature> features(int64_t length, int64_t vocabulary, bool pairs);
  std::vector<Feature> features() const { return features(length_, vocabulary_, pairs_); }
  /// Reads the features of rows; slices[f] is where feature f goes.
  void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const;

 private:
  int64_t length_, vocabulary_;
  bool pairs_ = false;  ///< a row has a second text
  std::vector<int32_t> ids_;
  std::vector<int64_t> begin_ = {0};  ///< [rows + 1]
  std::vector<int32_t> second_;
};

/// Fills one int32 feature [length] of rows: value(row, i) for the entries that the slice wants.
void fill_entries(std::span<const int64_t> rows, const FeatureSlice& slice, int64_t length,
                  const std::function<int32_t(int64_t row, int64_t i)>& value);

/// The vocabulary and the length of the rows of labelled texts, `inputs`. Throws Error (kConfig) where the section `data`
/// lacks one.
const Vocabulary& row_vocabulary(const SourceContext& context);
int64_t row_length(const SourceContext& context);

/// Calls `encode(i)` for 0 .. count - 1, on the threads of the context.
void encode_in_parallel(const SourceContext& context, int64_t count,
                        const std::function<void(int64_t)>& encode);

/// Returns the ids of a text, in lower case where `data.lowercase` says so.
std::vector<int32_t> encode_text(const SourceContext& context, std::string_view text);

}  // namespace mtf
