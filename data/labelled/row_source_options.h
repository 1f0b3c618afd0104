// What the options of sources of labelled texts share: their files and the tokens around texts.
#pragma once

#include <string>
#include <vector>

#include "data/source_options.h"
#include "data/vocabulary/special_tokens.h"

namespace mtf {

struct RowSourceOptions : SourceOptions {
  std::vector<config::Path> path;
  SpecialTokenOptions special_tokens;

  std::vector<config::Path*> paths() override { return pointers_to({&path}); }
  bool has_tokens() const override { return true; }
};
/// The key special_tokens.
void describe_rows(config::Visitor& visit, RowSourceOptions& options);

/// Returns the files of the paths. Throws Error (kConfig) with all that are missing.
std::vector<std::string> files_of(const std::vector<config::Path>& paths);

}  // namespace mtf
