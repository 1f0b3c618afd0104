#include "engine/backend/cuda/device/submission.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "engine/base/error.h"

namespace mtf::cuda {
namespace {

constexpr const char* kGraphs = "MTF_CUDA_GRAPHS";
constexpr const char* kCheck = "MTF_CUDA_CHECK";

bool is_on(const char* variable, bool otherwise) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return otherwise;
  const std::string_view text = value;
  if (text != "0" && text != "1")
    throw Error(ErrorKind::kUsage, fmt::format("{}: `{}`", variable, text), "0 or 1");
  return text == "1";
}

/// The word as a shell reads it.
std::string shell_word(const std::string& word) {
  const auto is_plain = [](unsigned char letter) {
    return std::isalnum(letter) != 0 ||
           std::string_view("_-./:=,@%+").find(static_cast<char>(letter)) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  std::string quoted = "'";
  for (const char letter : word) quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

/// The command line of this process.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text;
  for (std::string word; std::getline(file, word, '\0');)
    text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

}  // namespace

Submission submission_of_environment() {
  const bool records = is_on(kGraphs, true), awaits = is_on(kCheck, false);
  return awaits ? Submission::kAwaited : records ? Submission::kRecorded : Submission::kEager;
}

std::vector<BackendNote> notes_of(Submission submission) {
  switch (submission) {
    case Submission::kRecorded:
      break;
    case Submission::kEager:
      return {{false, fmt::format("{}=0: steps are not recorded as CUDA graphs", kGraphs)}};
    case Submission::kAwaited:
      return {{true, fmt::format("{}=1: the GPU is awaited after each instruction, which is slow", kCheck)}};
  }
  return {};
}

std::string failed_kernel_hint() {
  if (is_on(kCheck, false))
    return "`compute-sanitizer` before the same command names the kernel and the address";
  return fmt::format(
      "this command names the operation: `{}=1 {}` (with a launcher: {}=1 in its environment); if it "
      "succeeds, "
      "run with {}=0",
      kCheck, command_line(), kCheck, kGraphs);
}

}  // namespace mtf::cuda
