#include "trainer/report/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <climits>
#include <cmath>
#include <filesystem>
#include <vector>

#include "data/text/tfrecord.h"
#include "engine/base/error.h"
#include "engine/base/fault.h"
#include "trainer/report/event.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.";

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Returns the event files of a directory in the order of their names, in which TensorBoard reads them.
std::vector<std::string> event_files(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    const bool ours =
        entry->is_regular_file(ignored) && entry->path().filename().string().starts_with(kPrefix);
    if (ours) paths.push_back(entry->path().string());
  }
  if (error) {
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot be read: {}", directory, error.message()));
  }
  std::ranges::sort(paths);
  return paths;
}

/// Returns a name that sorts after those of all existing files, even if they were created within the same
/// second.
std::string new_file_name(const std::string& directory) {
  auto seconds = static_cast<int64_t>(wall_time());
  for (const std::string& path : event_files(directory)) {
    const std::string name = fs::path(path).filename().string().substr(kPrefix.size());
    int64_t taken = 0;
    std::from_chars(name.data(), name.data() + name.size(), taken);
    seconds = std::max(seconds, taken + 1);
  }
  char host[HOST_NAME_MAX + 1] = "localhost";
  ::gethostname(host, HOST_NAME_MAX);
  const std::string name = fmt::format("{}{}.{}.{}.0", kPrefix, seconds, host, ::getpid());
  return (fs::path(directory) / name).string();
}

/// Returns the beginning of a file: the version of the format, and the step at which the run begins or
/// resumes.
std::string file_header(int64_t step) {
  return tfrecord_frame(event_bytes({.wall_time = wall_time(), .file_version = "brain.Event:2"})) +
         tfrecord_frame(event_bytes({.wall_time = wall_time(), .step = step, .session_start = true}));
}

/// The parts of a file that are kept.
struct KeptEvents {
  std::vector<ByteRange> ranges;
  bool scalars = false;
};

KeptEvents kept_events(const std::string& path, const KeepEvent& keep) {
  KeptEvents kept;
  TFRecordReader reader(path);
  try {
    while (const std::optional<std::string_view> record = reader.next()) {
      const std::optional<Event> event = parse_event(*record);
      if (!event) break;
      const bool scalars = !event->scalars.empty();
      if (scalars && !keep(event->step, event->scalars[0].first)) continue;
      add_range(kept.ranges, {reader.offset(), reader.end()});
      kept.scalars |= scalars;
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;  // an incomplete end of the file is cut off
  }
  return kept;
}

void cut_event_file(const std::string& path, const KeepEvent& keep) {
  if (const int error = fault_point("resume.cut")) throw_not_written(path, error);
  const KeptEvents kept = kept_events(path, keep);
  if (kept.scalars) return keep_ranges(path, kept.ranges);
  std::error_code error;
  if (!fs::remove(path, error) && error) throw_not_written(path, error.value());
}

}  // namespace

void EventFile::write(int64_t step, const Metrics& scalars, const std::vector<MetricList>& lists) {
  Event event{.wall_time = wall_time(), .step = step};
  for (const auto& [tag, number] : scalars) event.scalars.emplace_back(tag, static_cast<float>(number));
  for (const MetricList& list : lists) {
    const bool finite = std::ranges::all_of(list.all, [](double number) { return std::isfinite(number); });
    if (finite && !list.all.empty()) event.histograms.emplace_back(list.name, Histogram::of(list.all));
  }
  std::string block;
  if (file_ && !file_->is_there()) begin_ = step;
  if (!file_ || !file_->is_there()) {
    file_.emplace(new_file_name(directory_));
    block = file_header(begin_);
  }
  file_->write(block + tfrecord_frame(event_bytes(event)));
}

void cut_event_files(const std::string& directory, const KeepEvent& keep) {
  for (const std::string& path : event_files(directory)) cut_event_file(path, keep);
}

}  // namespace mtf
