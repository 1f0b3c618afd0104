#include "engine/checkpoint/directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/fault.h"
#include "engine/base/file.h"
#include "engine/base/parse_number.h"
#include "engine/checkpoint/checkpoint.h"

namespace mtf {
namespace {

constexpr std::string_view prefix = "step-";
constexpr std::string_view unfinished_suffix = ".tmp";
constexpr std::string_view replaced_suffix = ".old";

/// Returns the step of ".step-00001000SUFFIX".
std::optional<int64_t> step_of_hidden(std::string_view name, std::string_view suffix) {
  if (!name.starts_with('.') || !name.ends_with(suffix)) return std::nullopt;
  return step_of(name.substr(1, name.size() - 1 - suffix.size()));
}

/// Returns the names in a directory; none if it does not exist.
std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error && error != std::errc::no_such_file_or_directory)
    throw Error(ErrorKind::kSystem,
                fmt::format("cannot read {}: {}", directory, system_message(error.value())));
  return names;
}

void rename_or_throw(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    throw Error(ErrorKind::kSystem, fmt::format("cannot rename {}: {}", from, system_message(errno)));
}

void remove_or_throw(const std::string& path, const std::string& shown) {
  if (const int error = remove_tree(path))
    throw Error(ErrorKind::kSystem, fmt::format("cannot remove {}: {}", shown, system_message(error)));
}

}  // namespace

std::optional<int64_t> step_of(std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto step = parse_number<int64_t>(name.substr(prefix.size()));
  return step && *step >= 0 && checkpoint_name(*step) == name ? step : std::nullopt;
}

std::string unfinished_name(int64_t step) {
  return fmt::format(".{}{}", checkpoint_name(step), unfinished_suffix);
}

std::string replaced_name(int64_t step) {
  return fmt::format(".{}{}", checkpoint_name(step), replaced_suffix);
}

std::string set_aside_name(int64_t step) { return fmt::format("damaged-{}", checkpoint_name(step)); }

int remove_tree(const std::string& path) {
  std::error_code error;
  if (std::filesystem::symlink_status(path, error).type() == std::filesystem::file_type::directory) {
    for (const std::string& name : names_in(path)) {
      std::filesystem::remove_all(fmt::format("{}/{}", path, name), error);
      if (error) return error.value();
      if (const int fault = fault_point("checkpoint.remove")) return fault;
    }
  }
  std::filesystem::remove(path, error);
  return error.value();
}

std::vector<SavedCheckpoint> list_checkpoints(const std::string& directory) {
  std::vector<SavedCheckpoint> checkpoints;
  for (const std::string& name : names_in(directory)) {
    const std::optional<int64_t> step = step_of(name);
    if (step) checkpoints.push_back({*step, fmt::format("{}/{}", directory, name)});
  }
  std::ranges::sort(checkpoints, {}, &SavedCheckpoint::step);
  return checkpoints;
}

void remove_unfinished(const std::string& directory) {
  for (const std::string& name : names_in(directory)) {
    const std::string path = fmt::format("{}/{}", directory, name);
    if (const auto step = step_of_hidden(name, unfinished_suffix))
      remove_or_throw(path, fmt::format("the unfinished {}/{}", directory, checkpoint_name(*step)));
    const std::optional<int64_t> replaced = step_of_hidden(name, replaced_suffix);
    if (!replaced) continue;
    const std::string complete = fmt::format("{}/{}", directory, checkpoint_name(*replaced));
    std::error_code ignored;
    if (std::filesystem::exists(complete, ignored))
      remove_or_throw(path, "what was replaced by " + complete);
    else
      rename_or_throw(path, complete);
  }
}

std::string set_checkpoint_aside(const SavedCheckpoint& saved) {
  const std::string name = fmt::format("{}/{}", directory_of(saved.path), set_aside_name(saved.step));
  remove_or_throw(name, name);  // an earlier checkpoint of the same step
  rename_or_throw(saved.path, name);
  sync_directory(directory_of(saved.path));
  return name;
}

void remove_checkpoint(const SavedCheckpoint& saved) {
  const std::string hidden = fmt::format("{}/{}", directory_of(saved.path), unfinished_name(saved.step));
  remove_or_throw(hidden, saved.path);  // left by a removal that was interrupted
  rename_or_throw(saved.path, hidden);
  sync_directory(directory_of(saved.path));  // the name must be gone before any of the files
  remove_or_throw(hidden, saved.path);
}

}  // namespace mtf
