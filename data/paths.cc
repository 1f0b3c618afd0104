#include "data/paths.h"

#include <fmt/format.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>

#include "engine/base/nearest.h"

namespace mtf {
namespace {

std::vector<std::string> matches(const std::string& pattern) {
  glob_t result{};
  const std::unique_ptr<glob_t, decltype(&::globfree)> guard(&result, ::globfree);
  if (::glob(pattern.c_str(), 0, nullptr, &result) != 0) return {};
  return {result.gl_pathv, result.gl_pathv + result.gl_pathc};
}

}  // namespace

std::optional<Problem> unreadable(const config::Path& path) {
  const auto problem = [&](const std::string& what, const std::string& hint) {
    return Problem{ErrorKind::kConfig, path.mark, what, hint, {}};
  };
  std::error_code error;
  const auto status = std::filesystem::status(path.text, error);
  if (std::filesystem::is_directory(status))
    return problem(fmt::format("{} is a directory", path.text),
                   fmt::format("`{}/*` for its files", path.text));
  if (status.type() == std::filesystem::file_type::not_found)
    return problem("there is no file " + path.text, did_you_mean_file(path.text));
  if (::access(path.text.c_str(), R_OK) == 0) return std::nullopt;
  return problem(fmt::format("cannot read {}: {}", path.text, system_message(errno)), "");
}

std::vector<std::string> find_files(const std::vector<config::Path>& paths, std::vector<Problem>& problems) {
  std::vector<std::string> files;
  for (const config::Path& path : paths) {
    std::error_code ignored;
    const bool is_glob = path.text.find_first_of("*?[") != std::string::npos;
    std::vector<config::Path> found{path};
    if (is_glob && !std::filesystem::exists(path.text, ignored)) {
      found.clear();
      for (const std::string& file : matches(path.text)) found.push_back({file, path.mark});
      if (found.empty())
        problems.push_back({ErrorKind::kConfig,
                            path.mark,
                            "no file matches " + path.text,
                            "the path of a file, or a glob",
                            {}});
    }
    for (const config::Path& file : found) {
      if (std::optional<Problem> problem = unreadable(file)) {
        problems.push_back(std::move(*problem));
      } else {
        files.push_back(file.text);
      }
    }
  }
  return files;
}

std::vector<std::string> find_regular_files(const std::vector<config::Path>& paths,
                                            std::vector<Problem>& problems) {
  std::vector<std::string> files = find_files(paths, problems);
  for (const std::string& file : files) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(file, ignored)) continue;
    const auto path = std::ranges::find(paths, file, &config::Path::text);
    problems.push_back({ErrorKind::kConfig,
                        path == paths.end() ? Mark{} : path->mark,
                        fmt::format("{} is no regular file", file),
                        "a file that can be read more than once",
                        {}});
  }
  return files;
}

}  // namespace mtf
