#include "data/vocabulary/special_tokens.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "data/vocabulary/extra_ids.h"

namespace mtf {
namespace {

std::optional<int32_t> find_piece(const Vocabulary& vocabulary, std::string_view piece) {
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.piece(id) == piece) return id;
  }
  return std::nullopt;
}

/// Pieces of vocabularies like BERT's, and of those like RoBERTa's.
constexpr std::string_view kBertMask = "[MASK]", kRobertaMask = "<mask>", kRobertaStart = "<s>";

}  // namespace

void describe(config::Visitor& visit, SpecialTokenOptions& options) {
  visit("start", options.start,
        "the piece before a text; none: [CLS] where the vocabulary has it, <s> where it has that and <mask>, "
        "else its end of sequence");
  visit("separator", options.separator,
        "the piece after each text; none: [SEP] where the vocabulary has it, else its end of sequence");
  visit("between", options.between,
        "how often the separator stands between two texts; null: twice where texts begin with <s>, as in "
        "RoBERTa, else once",
        config::positive);
}

SpecialTokens find_special_tokens(const SpecialTokenOptions& options, const Vocabulary& vocabulary,
                                  const Mark& mark) {
  SpecialTokens found;
  const bool has_roberta_mask = find_piece(vocabulary, kRobertaMask).has_value();
  const int32_t roberta_start =
      has_roberta_mask ? find_piece(vocabulary, kRobertaStart).value_or(kEosId) : kEosId;
  found.start = options.start.empty() ? find_piece(vocabulary, "[CLS]").value_or(roberta_start)
                                      : required_piece(options.start, vocabulary, mark);
  found.separator = options.separator.empty() ? find_piece(vocabulary, "[SEP]").value_or(kEosId)
                                              : required_piece(options.separator, vocabulary, mark);
  const bool begins_like_roberta = found.start == roberta_start && roberta_start != kEosId;
  found.between = options.between.value_or(begins_like_roberta ? 2 : 1);
  return found;
}

int32_t find_mask(const std::string& wanted, const Vocabulary& vocabulary, const Mark& mark) {
  if (!wanted.empty()) return required_piece(wanted, vocabulary, mark);
  for (const std::string_view usual : {kBertMask, kRobertaMask}) {
    if (const std::optional<int32_t> id = find_piece(vocabulary, usual)) return *id;
  }
  throw Error(ErrorKind::kConfig, mark,
              fmt::format("the vocabulary has no piece `{}` or `{}`", kBertMask, kRobertaMask),
              "`mask`, a piece as `mtf-vocab --pieces` shows it");
}

int32_t required_piece(std::string_view piece, const Vocabulary& vocabulary, const Mark& mark) {
  if (const std::optional<int32_t> id = find_piece(vocabulary, piece)) return *id;
  throw Error(ErrorKind::kConfig, mark, fmt::format("the vocabulary has no piece `{}`", piece),
              "a piece as `mtf-vocab --pieces` shows it");
}

int64_t sentinel_count(const Vocabulary& vocabulary) {
  int64_t count = 0;
  // Models that have these pieces themselves may put a blank before them.
  while (count < vocabulary.size() &&
         vocabulary.piece(static_cast<int32_t>(vocabulary.size() - 1 - count)).ends_with(extra_piece(count)))
    ++count;
  return count;
}

}  // namespace mtf
