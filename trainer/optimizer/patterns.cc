#include "trainer/optimizer/patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "engine/base/nearest.h"

namespace mtf {
namespace {

/// Returns the index of the last character of the class that begins with the `[` at `at`.
size_t end_of_class(const std::string& pattern, size_t at) {
  for (++at; at < pattern.size() && pattern[at] != ']'; ++at) {
    if (pattern[at] == '\\') ++at;
    if (pattern.compare(at, 2, "[:") == 0) at = std::min(pattern.find(":]", at), pattern.size() - 2) + 1;
  }
  return at;
}

/// Names the first mistake in brackets and repetitions, for which std::regex has a single code.
std::string bracket_mistake(const std::string& pattern) {
  std::vector<bool> open;  // brackets: true for those of `(?=` and `(?!`, which cannot be repeated
  bool is_repeatable = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '(') {
      const bool is_special = pattern.compare(i, 2, "(?") == 0;
      const char kind = is_special && i + 2 < pattern.size() ? pattern[i + 2] : ' ';
      if (is_special && kind != ':' && kind != '=' && kind != '!')
        return "`(?` is not followed by `:`, `=` or `!`";
      open.push_back(kind == '=' || kind == '!');
      is_repeatable = false;
      if (is_special) i += 2;
    } else if (c == ')') {
      if (open.empty()) return "`)` without `(`";
      is_repeatable = !open.back();
      open.pop_back();
    } else if (c == '|' || c == '^' || c == '$') {
      is_repeatable = false;
    } else if (c == '*' || c == '+' || c == '?' || c == '{') {
      if (!is_repeatable)
        return fmt::format("nothing stands before `{}`{}", c, c == '*' ? " (`.*` matches everything)" : "");
      if (c == '{') i = pattern.find('}', i);
    } else {
      is_repeatable = true;
      if (c == '\\') is_repeatable = ++i < pattern.size() && pattern[i] != 'b' && pattern[i] != 'B';
      if (c == '[') i = end_of_class(pattern, i);
    }
    if (i >= pattern.size()) break;
  }
  return "`(` without `)`";
}

std::string mistake_of(const std::regex_error& wrong, const std::string& pattern) {
  namespace codes = std::regex_constants;
  const auto code = wrong.code();
  if (code == codes::error_paren || code == codes::error_badrepeat) return bracket_mistake(pattern);
  if (code == codes::error_brack) return "`[` without `]`";
  if (code == codes::error_range) return "a range of characters that is none, such as `[z-a]`";
  if (code == codes::error_brace) return "`{` without `}`";
  if (code == codes::error_badbrace) return "`{` is not followed by `2}`, `2,}` or `2,5}`";
  if (code == codes::error_escape) return "what follows `\\` is missing or incomplete";
  if (code == codes::error_backref) return "`\\` and a number refer to brackets that are not there";
  if (code == codes::error_ctype || code == codes::error_collate) return "an unknown class of characters";
  return "it is too large";
}

}  // namespace

bool matches_any(const std::string& name, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    if (std::regex_search(name, std::regex(pattern))) return true;
  }
  return false;
}

void check_patterns_occur(std::string_view key, const std::vector<std::string>& patterns,
                          const std::vector<std::string>& names, const Mark& mark) {
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(names, [&](const std::string& name) { return matches_any(name, {pattern}); }))
      continue;
    throw Error(ErrorKind::kConfig, mark, fmt::format("`{}`: no variable matches `{}`", key, pattern),
                did_you_mean(pattern, names));
  }
}

std::string exact_pattern(const std::string& name) { return fmt::format("^{}$$", name); }

std::string pattern_problem(const std::string& key, const std::string& pattern) {
  constexpr size_t kLongestPattern = 500;  // std::regex calls itself for each bracket
  if (pattern.size() > kLongestPattern)
    return fmt::format("`{}`: a pattern of more than {} characters", key, kLongestPattern);
  try {
    const std::regex regex(pattern);
  } catch (const std::regex_error& wrong) {
    return fmt::format("`{}`: `{}` is not a regular expression: {}", key, pattern,
                       mistake_of(wrong, pattern));
  }
  return {};
}

}  // namespace mtf
