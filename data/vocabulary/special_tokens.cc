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

int32_t find_token(const std::string& wanted, std::string_view usual, const Vocabulary& vocabulary,
                   const Mark& mark) {
  if (wanted.empty()) return find_piece(vocabulary, usual).value_or(kEosId);
  return required_piece(wanted, vocabulary, mark);
}

}  // namespace

void describe(config::Visitor& visit, SpecialTokenOptions& options) {
  visit("start", options.start,
        "the piece before a text; none: [CLS] where the vocabulary has it, else its end of sequence");
  visit("separator", options.separator,
        "the piece after each text; none: [SEP] where the vocabulary has it, else its end of sequence");
}

SpecialTokens find_special_tokens(const SpecialTokenOptions& options, const Vocabulary& vocabulary,
                                  const Mark& mark) {
  return {find_token(options.start, "[CLS]", vocabulary, mark),
          find_token(options.separator, "[SEP]", vocabulary, mark)};
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
