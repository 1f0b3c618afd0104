#include "data/labelled/row_source_options.h"

#include "data/paths.h"

namespace mtf {

void describe_rows(config::Visitor& visit, RowSourceOptions& options) {
  visit("special_tokens", options.special_tokens, "tokens around the texts");
}

std::vector<std::string> files_of(const std::vector<config::Path>& paths) {
  std::vector<Problem> missing;
  std::vector<std::string> files = find_regular_files(paths, missing);
  if (!missing.empty()) throw Error(std::move(missing));
  return files;
}

}  // namespace mtf
