#include "data/text/paths.h"

#include <fmt/format.h>
#include <glob.h>

#include <filesystem>
#include <memory>

#include "engine/core/nearest.h"

namespace mtf {
namespace {

std::vector<std::string> matches(const std::string& pattern) {
  glob_t result{};
  const std::unique_ptr<glob_t, decltype(&::globfree)> guard(&result, ::globfree);
  if (::glob(pattern.c_str(), 0, nullptr, &result) != 0) return {};
  return {result.gl_pathv, result.gl_pathv + result.gl_pathc};
}

}  // namespace

std::vector<std::string> find_files(const std::vector<config::Path>& paths, std::vector<Problem>& problems) {
  std::vector<std::string> files;
  const auto report = [&](const config::Path& path, const std::string& what, const std::string& hint) {
    problems.push_back({ErrorKind::kData, path.mark, what, hint, {}});
  };
  for (const config::Path& path : paths) {
    std::error_code error;
    const auto status = std::filesystem::status(path.text, error);
    if (std::filesystem::is_directory(status)) {
      report(path, fmt::format("{} is a directory", path.text),
             fmt::format("`{}/*` for its files", path.text));
    } else if (std::filesystem::exists(status)) {
      files.push_back(path.text);
    } else if (path.text.find_first_of("*?[") == std::string::npos) {
      const std::string reason = status.type() == std::filesystem::file_type::not_found
                                     ? "there is no file " + path.text
                                     : fmt::format("cannot read {}: {}", path.text, error.message());
      report(path, reason, did_you_mean_file(path.text));
    } else {
      const std::vector<std::string> found = matches(path.text);
      if (found.empty()) report(path, "no file matches " + path.text, "the path of a file, or a glob");
      files.insert(files.end(), found.begin(), found.end());
    }
  }
  return files;
}

}  // namespace mtf
