#include "data/labelled/special_tokens.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

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
  if (const std::optional<int32_t> id = find_piece(vocabulary, wanted)) return *id;
  throw Error(ErrorKind::kConfig, mark, fmt::format("the vocabulary has no piece `{}`", wanted),
              "a piece as `mtf-vocab --pieces` shows it");
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

}  // namespace mtf
