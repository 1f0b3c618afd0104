#include "trainer/metrics/test_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "trainer/metrics/test_set_table.h"
#include "trainer/metrics/unicode.h"

namespace mtf {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 17> kArchives = {
    {{"wmt08", "https://statmt.org/wmt08/test.tgz"},
     {"wmt09", "https://statmt.org/wmt09/test.tgz"},
     {"wmt10", "https://statmt.org/wmt10/test.tgz"},
     {"wmt11", "https://statmt.org/wmt11/test.tgz"},
     {"wmt12", "https://statmt.org/wmt12/test.tgz"},
     {"wmt13", "https://statmt.org/wmt13/test.tgz"},
     {"wmt14", "https://statmt.org/wmt14/test-filtered.tgz"},
     {"wmt15", "https://statmt.org/wmt15/test.tgz"},
     {"wmt16", "https://data.statmt.org/wmt16/translation-task/test.tgz"},
     {"wmt17", "https://data.statmt.org/wmt17/translation-task/test.tgz"},
     {"wmt18", "https://data.statmt.org/wmt18/translation-task/test.tgz"},
     {"wmt19", "https://data.statmt.org/wmt19/translation-task/test.tgz"},
     {"wmt20", "https://data.statmt.org/wmt20/translation-task/test.tgz"},
     {"wmt21", "https://data.statmt.org/wmt21/translation-task/test.tgz"},
     {"wmt22", "https://github.com/wmt-conference/wmt22-news-systems"},
     {"wmt23", "https://github.com/wmt-conference/wmt23-news-systems"},
     {"wmt24", "https://github.com/wmt-conference/wmt24-news-systems"}}};

}  // namespace

namespace {

bool has_pair(const TestSet& set, std::string_view pair) {
  const std::vector<std::string_view> pairs = split_words(set.pairs);
  return std::ranges::find(pairs, pair) != pairs.end();
}

std::string list_sets(std::string_view pair) {
  std::string text = pair.empty() ? "The available test sets are:\n"
                                  : fmt::format("The available test sets for {} are:\n", pair);
  const size_t dash = pair.find('-');
  const std::string_view target = pair.substr(std::min(dash + 1, pair.size()));
  const std::string there = fmt::format("{}-{}", pair.substr(0, dash), target.substr(0, target.find('-')));
  const std::string back = fmt::format("{}-{}", target.substr(0, target.find('-')), pair.substr(0, dash));
  for (const TestSet& set : test_sets()) {
    if (pair.empty() || has_pair(set, there) || has_pair(set, back))
      text += fmt::format("{:<30}: {}\n", set.name, set.description);
  }
  return text;
}

std::string list_pairs(const TestSet& set, std::string_view pair) {
  if (set.fields.empty())
    throw Error(ErrorKind::kUsage,
                fmt::format("--list -t {}: only the files of the test set tell its fields", set.name),
                "sacreBLEU downloads them");
  std::string text;
  for (const std::string_view each : split_words(set.pairs)) {
    if (pair.empty() || pair == each)
      text += fmt::format("{}: {}\n", each, fmt::join(split_words(set.fields), ", "));
  }
  if (text.empty())
    throw Error(ErrorKind::kUsage, fmt::format("--list: the test set {} has no pair {}", set.name, pair),
                fmt::format("one of {}", fmt::join(split_words(set.pairs), ", ")));
  return text;
}

}  // namespace

std::string list_test_sets(const std::string& name, const std::string& pair) {
  if (name.empty()) return list_sets(pair);
  const std::span<const TestSet> sets = test_sets();
  const auto set = std::ranges::find(sets, std::string_view(name), &TestSet::name);
  if (set == sets.end())
    throw Error(ErrorKind::kUsage, fmt::format("--list: there is no test set `{}`", name),
                "`mtf-bleu --list` names them");
  return list_pairs(*set, pair);
}

void throw_no_test_set(const std::string& name) {
  const auto* const archive =
      std::ranges::find(kArchives, std::string_view(name), &decltype(kArchives)::value_type::first);
  const std::string message = fmt::format("-t {}: mtf-bleu downloads no test sets", name);
  if (archive == kArchives.end()) {
    throw Error(ErrorKind::kUsage, message,
                "those of WMT are at https://www.statmt.org; give the file: `mtf-bleu ref.sgm -i out.txt`");
  }
  throw Error(ErrorKind::kUsage, message,
              fmt::format("this one is in {}; give its reference: `mtf-bleu ref.{} -i out.txt`",
                          archive->second, name >= "wmt21" ? "xml" : "sgm"));
}

}  // namespace mtf
