#include "data/paths.h"

#include <fmt/format.h>
#include <glob.h>

#include <filesystem>
#include <memory>

#include "engine/core/error.h"

namespace mtf {
namespace {

std::vector<std::string> matches(const std::string& pattern) {
  glob_t result{};
  const std::unique_ptr<glob_t, decltype(&::globfree)> guard(&result, ::globfree);
  if (::glob(pattern.c_str(), 0, nullptr, &result) != 0)
    throw Error(ErrorKind::kData, fmt::format("no file matches {}", pattern),
                "the path of a file, or a glob");
  return {result.gl_pathv, result.gl_pathv + result.gl_pathc};
}

}  // namespace

std::vector<std::string> expand_globs(const std::vector<config::Path>& paths) {
  std::vector<std::string> files;
  for (const config::Path& path : paths) {
    std::error_code ignored;
    if (path.text.find_first_of("*?[") == std::string::npos || std::filesystem::exists(path.text, ignored)) {
      files.push_back(path.text);
    } else {
      const std::vector<std::string> found = matches(path.text);
      files.insert(files.end(), found.begin(), found.end());
    }
  }
  return files;
}

}  // namespace mtf
