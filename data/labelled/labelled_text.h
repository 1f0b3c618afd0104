// Texts, or pairs of texts, with a class or numbers to predict: the columns of a CSV, TSV or JSON Lines file. Beside
// those of token_rows.h the features are `labels` int32 [] and `y` float32 [targets].
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/labelled/row_source_options.h"
#include "data/labelled/token_rows.h"

namespace mtf {

struct LabelledTextOptions final : RowSourceOptions {
  static constexpr std::string_view type_name = "labelled_text";
  static constexpr bool type_required = true;
  bool header = true;
  config::Name text;
  config::Name pair;
  config::Name labels;
  std::vector<std::string> classes;
  std::vector<config::Name> targets;

  std::unique_ptr<Source> open(const SourceContext& context) const override;
  /// For tables: .csv, .tsv and .jsonl.
  bool read_from(const config::Path& file) override;
  std::optional<std::vector<Feature>> declared_features(const BySide<int64_t>& lengths,
                                                        const BySide<int64_t>& sizes) const override;
  void for_each_text(const Mark& mark, const TextUse& use) const override;
};

void describe(config::Visitor& visit, LabelledTextOptions& options);

/// Returns the rows of texts, or of pairs of texts, without labels. `pairs` is empty or has a text for each.
std::unique_ptr<Source> open_texts(std::vector<std::string> texts, std::vector<std::string> pairs,
                                   const SpecialTokenOptions& special_tokens, const SourceContext& context);

/// Returns `start a separator`, or with a pair `start a separator b separator`, with special.between separators between
/// them, of at most `length` tokens. Of a pair the longer text loses its last token until both fit, of equal ones the second,
/// as BERT does.
TokenRow joined_row(std::vector<int32_t> a, std::optional<std::vector<int32_t>> b,
                    const SpecialTokens& special, int64_t length);

}  // namespace mtf
