#include "data/vocabulary/unigram_pieces.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/utf8.h"

namespace mtf {
namespace {

/// What an unknown character is less probable than the least probable token by.
constexpr double kPenaltyOfUnknown = 10;

}  // namespace

UnigramPieces::UnigramPieces(UnigramModel model) : model_(std::move(model)) {
  for (const auto& [token, id] : model_.ids) longest_ = std::max(longest_, token.size());
  unknown_score_ = *std::ranges::min_element(model_.scores) - kPenaltyOfUnknown;
}

void UnigramPieces::encode(std::string_view word, std::vector<int32_t>& ids) const {
  struct Best {
    double score = 0;
    size_t begin = std::string_view::npos;  ///< where the last token begins
    bool is_unknown = false;
  };
  std::vector<Best> best(word.size() + 1);
  const auto add = [&](size_t begin, size_t end, double score, bool is_unknown) {
    const double sum = score + best[begin].score;
    if (best[end].begin == std::string_view::npos || sum > best[end].score)
      best[end] = {sum, begin, is_unknown};
  };
  for (size_t begin = 0, next = 0; begin < word.size(); begin = next) {
    next_character(word, next);
    bool is_known = false;
    const size_t last = std::min(word.size(), begin + longest_);
    for (size_t end = next; end <= last;) {
      if (const std::optional<int32_t> id = model_.find_id(word.substr(begin, end - begin))) {
        add(begin, end, model_.scores[static_cast<size_t>(*id)], id == model_.unknown);
        is_known |= end == next;
      }
      if (end == word.size()) break;
      next_character(word, end);
    }
    if (!is_known) add(begin, next, unknown_score_, true);
  }
  std::vector<std::string_view> tokens;  // from the last one
  bool follows_unknown = false;
  for (size_t end = word.size(); end > 0;) {
    const Best& at = best[end];
    if (at.is_unknown && follows_unknown) {
      tokens.back() = word.substr(at.begin, tokens.back().size() + (end - at.begin));
    } else {
      tokens.push_back(word.substr(at.begin, end - at.begin));
    }
    follows_unknown = at.is_unknown;
    end = at.begin;
  }
  for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) append_token(*token, ids);
}

/// Unknown characters in a row may be a token together.
void UnigramPieces::append_token(std::string_view token, std::vector<int32_t>& ids) const {
  if (const std::optional<int32_t> id = model_.find_id(token)) return ids.push_back(*id);
  if (!model_.falls_back_to_bytes || !model_.append_byte_tokens(token, ids)) ids.push_back(*model_.unknown);
}

}  // namespace mtf
