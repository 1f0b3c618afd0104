#include "trainer/decode/output.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <utility>

namespace mtf {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = "{step}";

/// A pipe, a terminal or another device, which keeps its name.
bool is_device(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

/// What a symbolic link to a file stands for; the path itself where it is none.
std::string without_link(const std::string& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  const fs::path target = fs::weakly_canonical(path, error);
  return error ? path : target.string();
}

}  // namespace

void check_output_names(const std::string& output, size_t checkpoints, const Mark& mark) {
  if (checkpoints < 2 || output.find(kStep) != std::string::npos) return;
  throw Error(ErrorKind::kConfig, mark,
              fmt::format("{} checkpoints would write into one output, {}", checkpoints,
                          output == "-" ? "standard output" : output),
              "a file with {step} in its name, such as `out.{step}.txt`");
}

TextOutput::TextOutput(const std::string& path, int64_t step) : path_(path), file_(stdout) {
  if (path == "-") return;
  if (const size_t at = path_.find(kStep); at != std::string::npos)
    path_.replace(at, kStep.size(), fmt::format("{}", step));
  std::error_code ignored;
  if (fs::is_directory(path_, ignored))
    throw Error(ErrorKind::kSystem, fmt::format("cannot write {}: it is a directory", path_), "a file");
  if (!is_device(path_)) {
    part_ = std::make_unique<PartFile>(without_link(path_));
    file_ = part_->stream();
    return;
  }
  file_ = std::fopen(path_.c_str(), "wb");
  if (file_ == nullptr)
    throw Error(ErrorKind::kSystem, fmt::format("cannot write {}: {}", path_, system_message(errno)));
}

TextOutput::~TextOutput() {
  if (!part_ && file_ != stdout && file_ != nullptr) std::fclose(file_);
}

void TextOutput::check(bool good) const {
  if (good) return;
  const int error = errno;
  throw Error(
      ErrorKind::kSystem,
      fmt::format("cannot write {}: {}", path_ == "-" ? "to standard output" : path_, system_message(error)));
}

void TextOutput::line(std::string_view text) {
  check(std::fwrite(text.data(), 1, text.size(), file_) == text.size() && std::fputc('\n', file_) != EOF);
}

void TextOutput::flush() { check(std::fflush(file_) == 0); }

void TextOutput::close() {
  flush();
  if (file_ == stdout) return;
  std::FILE* const file = std::exchange(file_, nullptr);
  check(part_ ? part_->finish() : std::fclose(file) == 0);
}

}  // namespace mtf
