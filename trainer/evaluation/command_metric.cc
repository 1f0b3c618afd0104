#include "trainer/evaluation/command_metric.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>

#include "engine/base/append_file.h"
#include "engine/base/parse_number.h"
#include "engine/base/printable.h"
#include "engine/base/replace_all.h"
#include "trainer/metrics/unicode.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

/// A directory that is removed with all its files.
class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_((fs::temp_directory_path() / "mtf-metric-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) throw_not_written(path_, errno);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;

  /// Writes a file and returns its path.
  std::string file(const std::string& name, const std::string& text) const {
    std::string path = (fs::path(path_) / name).string();
    if (const int error = write_file(path, std::as_bytes(std::span(text)))) throw_not_written(path, error);
    return path;
  }

 private:
  std::string path_;
};

std::optional<double> number_in_last_line(std::string_view output) {
  output = strip(output);
  const size_t line = output.rfind('\n');
  const std::string_view last = strip(line == std::string_view::npos ? output : output.substr(line + 1));
  const std::optional<double> number = parse_number<double>(last);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

struct CommandResult {
  int status = 0;  ///< as of waitpid()
  std::string output;
};

CommandResult run_shell(const std::string& command) {
  std::FILE* const pipe = ::popen(command.c_str(), "re");
  if (pipe == nullptr) return {-1, {}};
  CommandResult result;
  char buffer[4096];
  while (const size_t size = std::fread(buffer, 1, sizeof buffer, pipe)) result.output.append(buffer, size);
  result.status = ::pclose(pipe);
  return result;
}

}  // namespace

std::string lines_of(const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts) {
    const size_t begin = lines.size();
    lines += text;
    std::replace_if(
        lines.begin() + static_cast<std::ptrdiff_t>(begin), lines.end(),
        [](char c) { return c == '\n' || c == '\r'; }, ' ');
    lines += '\n';
  }
  return lines;
}

double run_command_metric(const CommandMetric& metric, const PredictedTexts& texts,
                          const std::string& dataset) {
  const TemporaryDirectory directory;
  std::vector<std::string> references;
  for (size_t i = 0; i < texts.references.size(); ++i)
    references.push_back(
        directory.file(fmt::format("references-{}.txt", i + 1), lines_of(texts.references[i])));
  std::string command = metric.command;
  replace_all(command, "{predictions}", directory.file("predictions.txt", lines_of(texts.predictions)));
  replace_all(command, "{references}", fmt::format("{}", fmt::join(references, " ")));
  const CommandResult result = run_shell(command);
  const std::string place =
      fmt::format("evaluate.datasets.{}.metrics: `{}`", dataset, printable(metric.command));
  if (!WIFEXITED(result.status) || WEXITSTATUS(result.status) != 0)
    throw Error(ErrorKind::kData, fmt::format("{} failed", place), "its messages are above");
  if (const std::optional<double> number = number_in_last_line(result.output)) return *number;
  throw Error(ErrorKind::kData, fmt::format("{} printed no number in its last line", place),
              "one number, such as 0.731");
}

}  // namespace mtf
