// Reports yaml-cpp's syntax errors in terms of the configuration language.
#pragma once

#include <yaml-cpp/exceptions.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/config/source_text.h"

namespace mtf::config {

/// The innermost `{` or `[` that is open at the error. Line and column count from 0, as yaml-cpp counts.
struct OpenBracket {
  int line = 0;
  int column = 0;
};

/// Reports `error` at the place of its cause. `anchors` are the names of the anchors before the error.
void report_syntax_error(const YAML::ParserException& error, const SourceText& source,
                         const std::optional<OpenBracket>& bracket, const std::vector<std::string>& anchors,
                         Diagnostics& diagnostics);

}  // namespace mtf::config
