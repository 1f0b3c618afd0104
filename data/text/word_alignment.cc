#include "data/text/word_alignment.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

namespace mtf {
namespace {

/// Parses the number that the text begins with, and takes it away.
std::optional<int32_t> take_number(std::string_view& text) {
  int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || text.front() == '-') return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

}  // namespace

std::optional<std::vector<WordLink>> parse_word_links(std::string_view line) {
  constexpr std::string_view kBetween = " \t\r";
  std::vector<WordLink> links;
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(kBetween), line.size()));
    if (line.empty()) return links;
    const std::optional<int32_t> input = take_number(line);
    if (!input || !line.starts_with('-')) return std::nullopt;
    line.remove_prefix(1);
    const std::optional<int32_t> target = line.empty() ? std::nullopt : take_number(line);
    if (!target || (!line.empty() && kBetween.find(line.front()) == std::string_view::npos))
      return std::nullopt;
    links.push_back({*input, *target});
  }
}

void append_token_links(std::span<const WordLink> links, std::span<const int32_t> input_words,
                        std::span<const int32_t> target_words, std::vector<int32_t>& token_links) {
  std::vector<std::pair<int32_t, int32_t>> of_tokens;  // target and input
  for (const WordLink& link : links) {
    const auto targets = std::ranges::equal_range(target_words, link.target);
    const auto inputs = std::ranges::equal_range(input_words, link.input);
    for (auto t = targets.begin(); t != targets.end(); ++t) {
      for (auto i = inputs.begin(); i != inputs.end(); ++i)
        of_tokens.emplace_back(static_cast<int32_t>(t - target_words.begin()),
                               static_cast<int32_t>(i - input_words.begin()));
    }
  }
  std::ranges::sort(of_tokens);
  const auto repeated = std::ranges::unique(of_tokens);
  of_tokens.erase(repeated.begin(), repeated.end());
  for (const auto& [target, input] : of_tokens) token_links.insert(token_links.end(), {input, target});
}

}  // namespace mtf
