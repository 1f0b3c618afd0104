#include "engine/base/core_waits.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "engine/base/seconds_since.h"

namespace mtf {
namespace {

/// What all threads of this process have waited: the second number of `schedstat`, in nanoseconds.
double waits_of_threads() {
  double seconds = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator thread("/proc/self/task", error), end; !error && thread != end;
       thread.increment(error)) {
    std::ifstream file(thread->path() / "schedstat");
    int64_t computed = 0, waited = 0;
    if (file >> computed >> waited) seconds += 1e-9 * static_cast<double>(waited);
  }
  return seconds;
}

/// What the host has kept back of each core (mean): `steal`, the eighth number of the first line, in ticks of all cores.
double waits_of_cores() {
  std::ifstream file("/proc/stat");
  std::string word;
  int64_t ticks = 0;
  file >> word;
  for (int i = 0; i < 8; ++i) file >> ticks;
  const auto ticks_of_second = static_cast<double>(sysconf(_SC_CLK_TCK) * sysconf(_SC_NPROCESSORS_ONLN));
  return file ? static_cast<double>(ticks) / ticks_of_second : 0;
}

}  // namespace

CoreWaits::CoreWaits()
    : begin_(std::chrono::steady_clock::now()), threads_(waits_of_threads()), cores_(waits_of_cores()) {}

double CoreWaits::of_threads() const { return std::max(0.0, waits_of_threads() - threads_); }

double CoreWaits::of_cores() const { return waits_of_cores() - cores_; }

std::string CoreWaits::description() const {
  constexpr double kDisturbed = 0.02;
  const double seconds = seconds_since(begin_), threads = of_threads(), cores = of_cores();
  const auto had = [&](const char* who, double waited) {
    return fmt::format("{} had cores of this one for {:.2g} s of {:.2g} s: times are too long", who, waited,
                       seconds);
  };
  if (threads > kDisturbed * seconds) return had("other programs", threads);
  if (cores > kDisturbed * seconds) return had("other machines of this machine's host", cores);
  return {};
}

}  // namespace mtf
