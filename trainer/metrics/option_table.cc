#include "trainer/metrics/option_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"

namespace mtf {
namespace {

/// Returns the option that `word` ("-tok", "--tokenize" or "--tok") names.
const OptionName& find_option(std::string_view word, const std::vector<OptionName>& options) {
  const bool is_long = word.starts_with("--");
  const std::string_view name = word.substr(is_long ? 2 : 1);
  std::vector<const OptionName*> found;
  for (const OptionName& option : options) {
    if ((is_long ? option.name : option.short_name) == name) return option;
    if (is_long && option.name.starts_with(name)) found.push_back(&option);
  }
  if (found.size() == 1) return *found.front();
  std::vector<std::string> candidates;
  for (const OptionName* option : found) candidates.push_back(fmt::format("--{}", option->name));
  throw Error(ErrorKind::kUsage,
              found.empty() ? fmt::format("`{}` is no option", word)
                            : fmt::format("`{}` may be {}", word, fmt::join(candidates, " or ")),
              "`mtf-bleu --help` lists the options");
}

/// True for "-w2": a short name of one letter followed by its value.
bool has_joined_value(std::string_view word, const std::vector<OptionName>& options) {
  if (word.size() < 3 || word[1] == '-' || word[2] == '=') return false;
  const auto is_named = [&](std::string_view name) {
    return std::ranges::any_of(options, [&](const OptionName& option) {
      return option.short_name == name && (name.size() > 1 || option.takes != Takes::kNothing);
    });
  };
  return is_named(word.substr(1, 1)) && !is_named(word.substr(1, word.find('=') - 1));
}

bool is_option(std::string_view word) { return word.size() > 1 && word.front() == '-'; }

}  // namespace

std::vector<std::string> with_long_names(const std::vector<std::string>& words,
                                         const std::vector<OptionName>& options) {
  std::vector<std::string> result;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      result.insert(result.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
      break;
    }
    if (!is_option(word)) {
      result.push_back(word);
      continue;
    }
    const bool joined = has_joined_value(word, options);
    const size_t name_end = joined ? 2 : std::min(word.find('='), word.size());
    const OptionName& option = find_option(std::string_view(word).substr(0, name_end), options);
    std::string value = joined ? word.substr(2) : word.substr(std::min(name_end + 1, word.size()));
    const bool has_value = joined || name_end < word.size();
    if (option.takes == Takes::kNothing) {
      if (has_value)
        throw Error(ErrorKind::kUsage, fmt::format("`{}`: --{} takes no value", word, option.name));
      result.push_back(fmt::format("--{}", option.name));
      continue;
    }
    if (!has_value) {
      if (i + 1 == words.size() || (option.takes == Takes::kValues && is_option(words[i + 1])))
        throw Error(ErrorKind::kUsage, fmt::format("`{}` needs a value", word), "`mtf-bleu --help` explains");
      value = words[++i];
      while (option.takes == Takes::kValues && i + 1 < words.size() && !is_option(words[i + 1]))
        value += kValueSeparator + words[++i];
    }
    result.push_back(fmt::format("--{}={}", option.name, value));
  }
  return result;
}

}  // namespace mtf
