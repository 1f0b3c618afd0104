#include "data/metrics/test_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "engine/core/error.h"

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
