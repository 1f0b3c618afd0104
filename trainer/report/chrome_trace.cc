#include "trainer/report/chrome_trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/base/file.h"
#include "engine/base/json.h"

namespace mtf {
namespace {

/// Writes a file of events piece by piece. It appears under its name only when it is complete.
class EventWriter {
 public:
  explicit EventWriter(const std::string& path)
      : path_(path),
        partial_(partial_path(path)),
        file_(partial_, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0666) {
    error_ = file_.error();
    text_ = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  }
  ~EventWriter() { ::unlink(partial_.c_str()); }  // not there if finish() has renamed it
  EventWriter(const EventWriter&) = delete;

  void add(const std::string& event) {
    text_ += is_first_ ? "\n" : ",\n";
    is_first_ = false;
    text_ += event;
    if (text_.size() > kPiece) flush();
  }
  int finish() {
    text_ += "\n]}\n";
    flush();
    if (error_ == 0 && ::rename(partial_.c_str(), path_.c_str()) != 0) error_ = errno;
    return error_;
  }

 private:
  static constexpr size_t kPiece = 1 << 20;

  void flush() {
    if (error_ == 0) error_ = file_.write(std::as_bytes(std::span(text_)));
    text_.clear();
  }

  const std::string path_, partial_;
  File file_;
  int error_ = 0;
  bool is_first_ = true;
  std::string text_;
};

/// Caches the parts of an event that depend only on its label.
class LabelTexts {
 public:
  const std::string& of(const ProfileLabel* label) {
    const auto [at, is_new] = texts_.try_emplace(label);
    if (is_new)
      at->second =
          fmt::format("\"name\": {}, \"cat\": \"{}\"", json_text(label->name), name_of(label->category));
    return at->second;
  }
  const std::string& detail(const ProfileLabel* label) {
    const auto [at, is_new] = details_.try_emplace(label);
    if (is_new) at->second = json_text(label->detail);
    return at->second;
  }

 private:
  std::unordered_map<const ProfileLabel*, std::string> texts_, details_;
};

std::string arguments_of(const ProfileTrack::Span& span, LabelTexts& texts) {
  std::string arguments;
  if (!span.label->detail.empty()) arguments = "\"detail\": " + texts.detail(span.label);
  if (span.part >= 0) {
    arguments += fmt::format("{}\"{}\": {}", arguments.empty() ? "" : ", ",
                             span.label->category == ProfileCategory::kStep ? "step" : "part", span.part);
  }
  return arguments;
}

/// Returns a time in microseconds.
std::string time_text(int64_t nanoseconds) {
  return fmt::format("{:.3f}", static_cast<double>(nanoseconds) / 1e3);
}

}  // namespace

int64_t system_nanoseconds() {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

int write_chrome_trace(const std::string& path, const Profile& profile, const TracedProcess& process) {
  EventWriter file(path);
  const auto name = [&](const char* what, size_t thread, const std::string& name) {
    file.add(fmt::format(R"({{"ph": "M", "pid": {}, "tid": {}, "name": "{}", "args": {{"name": {}}}}})",
                         process.rank, thread, what, json_text(name)));
  };
  const int64_t to_origin = system_nanoseconds() - Profile::now() - process.origin;
  const std::vector<const ProfileTrack*> tracks = profile.tracks();
  name("process_name", 0, process.name);
  LabelTexts texts;
  for (size_t thread = 0; thread < tracks.size(); ++thread) {
    name("thread_name", thread, tracks[thread]->name());
    const auto recorded = tracks[thread]->spans();
    std::vector<ProfileTrack::Span> spans(recorded.begin(), recorded.end());
    std::ranges::sort(spans, [](const auto& a, const auto& b) {
      // A span comes before those that it contains.
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    for (const ProfileTrack::Span& span : spans) {
      file.add(fmt::format(R"({{"ph": "X", "pid": {}, "tid": {}, {}, "ts": {}, "dur": {}, "args": {{{}}}}})",
                           process.rank, thread, texts.of(span.label), time_text(span.begin + to_origin),
                           time_text(span.end - span.begin), arguments_of(span, texts)));
    }
  }
  return file.finish();
}

}  // namespace mtf
