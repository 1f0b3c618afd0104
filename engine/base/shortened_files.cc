#include "engine/base/shortened_files.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <mutex>

namespace mtf {
namespace {

constexpr size_t kMostFiles = 1024, kLongestPath = 512;

/// What a signal handler reads is set before `begin`.
struct Mapping {
  std::atomic<const char*> begin{nullptr};  ///< null: the entry is free
  std::atomic<size_t> size{0};
  std::array<char, kLongestPath> path{};
};

std::array<Mapping, kMostFiles> mappings;
std::mutex mutex;  // for changes of `mappings`

/// Only calls what may be called in a signal handler.
void print(const char* text) {
  const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(written);
}

void on_bus_error(int signal, siginfo_t* info, void*) {
  const auto* const address = static_cast<const char*>(info->si_addr);
  for (const Mapping& mapping : mappings) {
    const char* const begin = mapping.begin.load();
    if (begin == nullptr || address < begin || address >= begin + mapping.size.load()) continue;
    print(mapping.path.data());
    print(
        ": it has become shorter while it was read; files of data and caches must stay as they are until the "
        "run ends\n");
    ::_exit(1);
  }
  std::signal(signal, SIG_DFL);  // the instruction runs again
}

void handle_bus_errors() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

void watch_mapping(const void* memory, size_t size, const std::string& path) {
  static std::once_flag handled;
  std::call_once(handled, handle_bus_errors);
  const std::lock_guard lock(mutex);
  const auto entry =
      std::ranges::find_if(mappings, [](const Mapping& mapping) { return mapping.begin.load() == nullptr; });
  if (entry == mappings.end()) return;
  const size_t bytes = std::min(path.size(), kLongestPath - 1);
  std::ranges::copy_n(path.begin(), static_cast<std::ptrdiff_t>(bytes), entry->path.begin());
  entry->path[bytes] = '\0';
  entry->size = size;
  entry->begin = static_cast<const char*>(memory);
}

void forget_mapping(const void* memory) {
  const std::lock_guard lock(mutex);
  const auto entry =
      std::ranges::find_if(mappings, [&](const Mapping& mapping) { return mapping.begin.load() == memory; });
  if (entry != mappings.end()) entry->begin = nullptr;
}

}  // namespace mtf
