#include "data/text/old_stores.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/file.h"
#include "engine/base/file_lock.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKeyDigits = 32;

/// True for names of the form KIND-KEY.safetensors and images-KEY.pixels, and for what a process that was killed has
/// left of them.
bool is_store(std::string_view name) {
  if (name.starts_with("tokens.partial-")) return true;
  struct Kind {
    std::string_view begin, end;
  };
  name = without_partial(name);
  for (const Kind& kind : {Kind{"tokens-", ".safetensors"}, Kind{"rows-", ".safetensors"},
                           Kind{"pieces-", ".safetensors"}, Kind{"images-", ".pixels"}}) {
    if (!name.starts_with(kind.begin) || !name.ends_with(kind.end)) continue;
    const std::string_view key =
        name.substr(kind.begin.size(), name.size() - kind.begin.size() - kind.end.size());
    return key.size() == kKeyDigits && key.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  }
  return false;
}

/// True if the file was not written, or marked as used, for `time`.
bool is_older(const fs::path& path, std::chrono::hours time) {
  std::error_code error;
  const fs::file_time_type written = fs::last_write_time(path, error);
  return !error && fs::file_time_type::clock::now() - written >= time;
}

/// Returns the size of the store if it is old, else nullopt.
std::optional<int64_t> bytes_if_old(const fs::directory_entry& entry) {
  if (!is_store(entry.path().filename().string()) || !is_older(entry.path(), kStoresKept))
    return std::nullopt;
  std::error_code error;
  const uintmax_t bytes = fs::file_size(entry.path(), error);
  return error ? std::nullopt : std::optional(static_cast<int64_t>(bytes));
}

}  // namespace

void remove_partial_stores(const std::string& path) {
  std::error_code ignored;
  for (const std::string& partial : partial_files(path)) {
    if (is_older(partial, kPartialStoresKept)) fs::remove(partial, ignored);
  }
}

void mark_used(const std::string& path) { ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

std::string RemovedStores::to_string(const std::string& directory) const {
  return fmt::format("removed {} ({:.1f} MB) from {}, which no run has used for {} days",
                     counted(count, "store"), static_cast<double>(bytes) / 1e6, directory,
                     kStoresKept.count());
}

RemovedStores remove_old_stores(const std::string& directory) {
  const FileLock lock(directory + "/old_stores.lock", {});
  RemovedStores removed;
  std::error_code ignored;
  for (fs::directory_iterator entry(directory, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    const std::optional<int64_t> bytes = bytes_if_old(*entry);
    std::error_code error;
    if (!bytes || !fs::remove(entry->path(), error)) continue;
    ++removed.count;
    removed.bytes += *bytes;
  }
  return removed;
}

}  // namespace mtf
