// A source of rows of token ids for training and evaluating models of text, made from text files.
//
//   const std::unique_ptr<TextSource> source = make_text_source(options, settings, mark);
//   log.info(source->report().to_string());
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/source.h"
#include "data/text/drawing_memory.h"
#include "data/text/text_rows.h"
#include "data/text/text_settings.h"

namespace mtf {

/// Returns the features of one side of the rows, three int32 features [length]: SIDE, the token ids;
/// SIDE_segmentation, the number of the example in the row, from 1; and SIDE_position, the position in the
/// example, from 0. All three are 0 in the padding.
std::vector<Feature> side_features(Side side, int64_t length, int64_t vocabulary_size);
/// Returns those of all sides_in_rows(), in rows that are packed so, and that of alignments where the source has them.
std::vector<Feature> text_features(const TextSourceOptions& options, const BySide<int64_t>& lengths,
                                   const BySide<int64_t>& vocabulary_sizes, Packing packing);

/// The alignment of the tokens of rows of training, float32 [length, memory_length] of targets and inputs: the tokens of the
/// inputs that are linked to one of the targets have equal weights, whose sum is 1; other weights are 0.
inline constexpr std::string_view kAlignmentFeature = "alignment";

class TextSource final : public Source {
 public:
  /// `features`: text_features(), and behind them that of alignments where the rows have them.
  TextSource(std::vector<Feature> features, TokenStore tokens, RowStore rows, const RowRules& rules);

  int64_t examples() const override { return rows_.rows(); }
  const std::vector<Feature>& features() const override { return features_; }
  void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const override;
  /// The name of the stored rows, a hash of all that determines them.
  std::string fingerprint() const override;
  void check_aligned(const Mark& mark) const override;

  const TextReport& report() const { return report_; }
  /// The paths of its files in the cache.
  std::vector<std::string> stores() const { return {tokens_.path(), rows_.path()}; }
  /// The memory that making these rows again takes, with tokens that `threads` threads draw.
  int64_t bytes_of_drawing(int threads) const {
    return bytes_of_drawing_texts(threads, tokens_, rows_.first(rows_.rows()));
  }

 private:
  /// The part of a row of one feature that is read, and where it goes.
  struct Window {
    int32_t* output;
    int64_t begin, end;
  };
  void read_row(Side side, int64_t row, const Window& ids, const Window& segments,
                const Window& positions) const;
  /// Gives `output` the box of the row's alignment.
  void read_alignment(int64_t row, const Box& box, float* output) const;
  /// True if an end of sequence stands for the last token of a piece, which was cut.
  bool ends_cut(Side side, int64_t piece) const;

  std::vector<Feature> features_;
  TokenStore tokens_;
  RowStore rows_;
  TextReport report_;
  std::vector<Side> sides_;
  BySide<int64_t> vocabulary_sizes_;
  bool cut_ends_;  ///< texts that were cut also end with an end-of-sequence token
};

/// Scans the files, tokenises and packs them, whatever their `sampling` says, unless the cache already has the result. Throws
/// Error: kData with all problems of the files; kConfig at `mark` for settings that do not suit the source; kSystem when the
/// cache cannot be written.
std::unique_ptr<TextSource> make_text_source(const TextSourceOptions& options, const TextSettings& settings,
                                             const Mark& mark = {});

}  // namespace mtf
