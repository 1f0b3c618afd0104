#include "trainer/session/model_dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/fault.h"
#include "engine/base/file.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/comm/rendezvous/handshake.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

/// The time for a killed process to exit and release its memory and devices.
constexpr std::chrono::seconds kLockPatience{5};
constexpr std::chrono::milliseconds kBetweenLocks{50};

/// Writes a file atomically. Throws Error (kSystem).
void write_whole(const std::string& path, const std::string& text) {
  const int error = write_file(path, std::as_bytes(std::span(text)));
  if (error == 0) return;
  throw Error(ErrorKind::kSystem, fmt::format("{}: cannot be written: {}", path, system_message(error)));
}

constexpr std::string_view kFlightRecord = "flight.rank-";

/// True for files that a run modifies in place.
bool is_written_in_place(std::string_view name) {
  constexpr std::array<std::string_view, 5> beginnings = {"metrics.jsonl", "evaluate.jsonl", "log.",
                                                          "events.out.tfevents.", "profile."};
  return std::ranges::any_of(beginnings, [&](std::string_view begin) { return name.starts_with(begin); });
}

/// Returns the sorted names in a directory; none if it does not exist.
std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  return names;
}

/// Removes what a killed process has left of files that only the owner of the lock writes.
void remove_partial_files(const fs::path& directory) {
  for (const std::string& name : names_in(directory)) {
    const std::string_view whole = without_partial(name);
    if (whole == name || (whole != kPreparationFile && !whole.starts_with("config."))) continue;
    std::error_code ignored;
    fs::remove(directory / name, ignored);
  }
}

/// Reports files that a run would open but that are not regular files: a link may lead anywhere, a pipe never
/// ends.
void check_files(const fs::path& directory, const Mark& mark, Diagnostics& diagnostics) {
  for (const std::string& name : names_in(directory)) {
    const bool in_place = is_written_in_place(name);
    if (!in_place && name != "config.yaml") continue;
    const fs::path file = directory / name;
    std::error_code ignored;
    if (in_place && fs::is_symlink(file, ignored)) {
      diagnostics.error(mark,
                        fmt::format("{} is a symbolic link (to {}), and a run would cut and write what it "
                                    "leads to",
                                    file.string(), fs::read_symlink(file, ignored).string()),
                        "put the file itself there, or remove the link");
    } else if (!fs::is_regular_file(file, ignored)) {
      diagnostics.error(mark, fmt::format("{} is no regular file, but a run writes one there", file.string()),
                        "remove it, or `run.model_dir=NEW`");
    }
  }
}

/// Returns the path of the file that shows process 0 that process `rank` shares its directory.
std::string token_path(const Config& config, int rank) {
  return in_model_dir(config, fmt::format(".rank-{}", rank));
}

/// A token file. Errors of writing are ignored; the destructor removes the file.
class TokenFile {
 public:
  TokenFile(std::string path, const std::string& token) : path_(std::move(path)) {
    write_file(path_, std::as_bytes(std::span(token)));
  }
  ~TokenFile() { ::unlink(path_.c_str()); }
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

 private:
  const std::string path_;
};

/// Compares the tokens of the processes with the content of their files, in process 0.
void compare_tokens(const Config& config, const std::vector<std::string>& tokens) {
  std::vector<std::string> blind;
  for (size_t rank = 1; rank < tokens.size(); ++rank) {
    if (read_text(token_path(config, static_cast<int>(rank))) != tokens[rank]) blind.push_back(tokens[rank]);
  }
  if (blind.empty()) return;
  throw Error(ErrorKind::kSystem,
              fmt::format("{} {} not see {} of rank 0, or cannot write into it", fmt::join(blind, ", "),
                          blind.size() == 1 ? "does" : "do", config.run.model_dir.text),
              "`run.model_dir` must be on a disk that all processes share");
}

/// Takes the lock if no other process has it. Returns 0 or the error number.
int try_lock(int descriptor) {
  if (const int fault = fault_point("directory.lock")) return fault;
  return ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
}

/// Waits for the lock. Returns 0, EWOULDBLOCK if another process keeps it, or another error number on file
/// systems without locks.
int lock_soon(int descriptor) {
  const auto deadline = std::chrono::steady_clock::now() + kLockPatience;
  int error = try_lock(descriptor);
  while (error == EWOULDBLOCK && std::chrono::steady_clock::now() <= deadline) {
    std::this_thread::sleep_for(kBetweenLocks);
    error = try_lock(descriptor);
  }
  return error;
}

}  // namespace

std::string in_model_dir(const Config& config, const std::string& name) {
  return (fs::path(config.run.model_dir.text) / name).string();
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool holds_run(const Config& config, Diagnostics& diagnostics) {
  const fs::path directory(config.run.model_dir.text);
  std::error_code ignored;
  if (fs::exists(directory, ignored) && !fs::is_directory(directory, ignored)) {
    diagnostics.error(config.mark("run.model_dir"),
                      fmt::format("`run.model_dir`: {} is not a directory", directory.string()));
    return false;
  }
  for (const fs::path& path : {directory, directory / "checkpoints"}) {
    if (!fs::is_symlink(path, ignored) || fs::exists(path, ignored)) continue;
    diagnostics.error(config.mark("run.model_dir"),
                      fmt::format("{} is a link to {}, which is not there", path.string(),
                                  fs::read_symlink(path, ignored).string()),
                      "create the directory (or mount its disk), or remove the link");
    return false;
  }
  check_files(directory, config.mark("run.model_dir"), diagnostics);
  if (fs::exists(directory / "config.yaml", ignored)) return true;
  for (const char* file : {"metrics.jsonl", "checkpoints"}) {
    if (!fs::exists(directory / file, ignored) || fs::is_empty(directory / file, ignored)) continue;
    diagnostics.error(config.mark("run.model_dir"),
                      fmt::format("{} holds {} but no config.yaml, so it is not known what it is a run of",
                                  directory.string(), file),
                      "`run.model_dir=NEW` starts in another directory; or remove this one");
  }
  return false;
}

bool is_record_of_run(const Config& config, const std::string& path) {
  std::error_code ignored;
  const fs::path within = fs::relative(path, config.run.model_dir.text, ignored);
  if (within.empty()) return false;
  if (within.has_parent_path()) return *within.begin() == "checkpoints";
  constexpr std::array<std::string_view, 3> beginnings = {"config.", kPreparationFile, "vocabulary."};
  const std::string name = within.string();
  return is_written_in_place(name) ||
         std::ranges::any_of(beginnings, [&](std::string_view begin) { return name.starts_with(begin); });
}

ModelDirLock::ModelDirLock(const Config& config) : directory_(config.run.model_dir.text) {
  const std::string& path = config.run.model_dir.text;
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0)
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot be opened: {}", path, system_message(errno)));
  const int error = lock_soon(descriptor_);
  if (error == 0) remove_partial_files(path);
  if (error != 0 && error != EWOULDBLOCK) {
    warning_ = fmt::format(
        "{}: its file system has no locks ({}), so that no run notices another one that trains in it", path,
        system_message(error));
  }
  if (error != EWOULDBLOCK) return;
  ::close(descriptor_);
  throw Error(ErrorKind::kSystem, fmt::format("another process is training in {}", path),
              "wait for its end, or take another `run.model_dir`");
}

ModelDirLock::~ModelDirLock() { ::close(descriptor_); }

void check_model_dir_is_shared(const Config& config, ProcessGroup& processes) {
  if (processes.size() == 1) return;
  const std::string name = "run.model_dir";
  const std::string token = process_name(processes.launch());
  std::optional<TokenFile> file;
  if (!processes.is_first()) file.emplace(token_path(config, processes.rank()), token);
  const std::vector<std::string> tokens = processes.collect(name, token);
  processes.first_then_others(name, [&] {
    if (processes.is_first()) compare_tokens(config, tokens);
  });
}

void write_config(const Config& config, int64_t step, const std::string& trained_with) {
  const std::string path = in_model_dir(config, "config.yaml");
  const std::string text = resolved_yaml(config), there = read_text(path);
  const std::string& before = trained_with.empty() || trained_with == text ? there : trained_with;
  if (!before.empty() && before != text) {
    const std::string kept = in_model_dir(config, fmt::format("config.step-{}.yaml", step));
    if (!fs::exists(kept)) write_whole(kept, before);
    fault_point("resume.config");
  }
  if (there != text) write_whole(path, text);
}

bool has_checkpoints(const Config& config) {
  const std::string directory = in_model_dir(config, "checkpoints");
  std::error_code ignored;
  return fs::is_directory(directory, ignored) && !list_checkpoints(directory).empty();
}

std::string stored_preparation(const Config& config) {
  if (config.run.mode == RunMode::kTrain && !has_checkpoints(config)) return {};
  return read_text(in_model_dir(config, std::string(kPreparationFile)));
}

void write_preparation(const Config& config, const std::string& preparation) {
  const std::string path = in_model_dir(config, std::string(kPreparationFile));
  if (!preparation.empty() && read_text(path) != preparation) write_whole(path, preparation);
}

std::optional<Error> model_dir_error(const Config& config, const HeldDirectory& held) {
  const std::string change = held.change();
  if (change.empty()) return std::nullopt;
  const bool removed = change == "was removed";
  return Error(ErrorKind::kSystem,
               fmt::format("{} {} while the run was writing into it", config.run.model_dir.text, change),
               removed ? "what the run had saved is gone; a new start begins at step 0"
                       : "give it its name back and start again: the run goes on from its last checkpoint");
}

std::string flight_record_name(int rank) { return fmt::format("{}{}.json", kFlightRecord, rank); }

void remove_flight_records(const Config& config) {
  for (const std::string& name : names_in(config.run.model_dir.text)) {
    if (name.starts_with(kFlightRecord)) ::unlink(in_model_dir(config, name).c_str());
  }
}

}  // namespace mtf
