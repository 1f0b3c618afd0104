#include "trainer/decode/line_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "data/input_file.h"
#include "data/paths.h"
#include "data/text/line_reader.h"
#include "engine/base/error.h"
#include "engine/base/file.h"
#include "engine/base/print_message.h"

namespace mtf {
namespace {

/// The numbers of lines and bytes at which reading ahead pauses.
constexpr size_t kAhead = 1 << 16, kAheadBytes = 1 << 26;
/// The time that take() waits for more lines after the first.
constexpr std::chrono::milliseconds kPatience(20);
/// The interval at which take() calls `waits` while it waits for the first line.
constexpr std::chrono::milliseconds kNotice(500);

ReadBytes reader(const std::string& path) {
  if (path == "-") return read_from(STDIN_FILENO, input_name(path));
  if (!is_stream(path)) {
    const auto file = std::make_shared<InputFile>(path, "a text");
    return [file, read = file->reader()](char* buffer, size_t size) { return read(buffer, size); };
  }
  const auto file = std::make_shared<File>(path, O_RDONLY);
  if (!file->open())
    throw Error(ErrorKind::kData, fmt::format("cannot open {}: {}", path, system_message(file->error())));
  return
      [file, read = read_from(file->get(), path)](char* buffer, size_t size) { return read(buffer, size); };
}

bool is_terminal(const std::string& path) { return path == "-" && ::isatty(STDIN_FILENO) != 0; }

/// True for a line in UTF-8. Otherwise throws Error (kData), or says on a terminal what is wrong with it.
bool is_accepted(std::string_view line, int64_t number, const std::string& path) {
  TextProblems problems;
  check_utf8(line, input_name(path), "line", number, problems);
  if (!is_terminal(path)) problems.throw_if_any();
  for (const Problem& problem : problems.problems()) {
    print_message("{}; {}\n", problem.message, problem.hint);
    prompt_on_terminal(path);
  }
  return problems.empty();
}

}  // namespace

bool is_stream(const std::string& path) {
  if (path == "-") return true;
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  return std::filesystem::is_fifo(status) || std::filesystem::is_character_file(status) ||
         std::filesystem::is_socket(status);
}

std::string input_name(const std::string& path) { return path == "-" ? "standard input" : path; }

void prompt_on_terminal(const std::string& path) {
  if (is_terminal(path)) print_message("> ");
}

std::optional<int64_t> check_lines(const std::string& path, const TextLimit& limit) {
  if (is_stream(path)) return std::nullopt;
  TextProblems problems;
  LineReader lines(path, problems, limit);
  int64_t count = 0;
  while (lines.next()) ++count;
  problems.throw_if_any();
  return count;
}

void check_inputs(const Config& config, const NamedInput& first, const NamedInput& second,
                  size_t checkpoints) {
  if (is_stream(first.path) && first.path == second.path) {
    throw Error(ErrorKind::kConfig, config.mark(second.key),
                fmt::format("`{}` and `{}` are both {}", first.key, second.key, input_name(first.path)),
                "a file for one of them");
  }
  for (const NamedInput& input : {first, second}) {
    if (config.launch.rank == 0 && !input.path.empty() && !is_stream(input.path)) {
      if (auto problem = unreadable({input.path, config.mark(input.key)}))
        throw Error(std::vector<Problem>{std::move(*problem)});
    }
    if (checkpoints < 2 || !is_stream(input.path)) continue;
    throw Error(ErrorKind::kConfig, config.mark(input.key),
                fmt::format("{} can be read for one checkpoint only, not for {}", input_name(input.path),
                            checkpoints),
                fmt::format("a file as `{}`", input.key));
  }
}

LineStream::LineStream(const std::string& path, const TextLimit& limit) : queue_(std::make_shared<Queue>()) {
  // Opening a pipe blocks until it has a writer, so the thread opens streams and take() waits.
  std::thread([queue = queue_, path, limit, read = is_stream(path) ? ReadBytes() : reader(path)] {
    std::exception_ptr error;
    try {
      LineSplitter lines(input_name(path), read ? read : reader(path), limit);
      while (const auto line = lines.next()) {
        if (is_accepted(*line, lines.line(), path) && !queue->add(*line)) break;
      }
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(queue->mutex);
    queue->error = error;
    queue->ended = true;
    queue->changed.notify_all();
  }).detach();
}

LineStream::~LineStream() {
  const std::lock_guard lock(queue_->mutex);
  queue_->stopped = true;
  queue_->changed.notify_all();
}

bool LineStream::Queue::full() const { return lines.size() >= kAhead || bytes >= kAheadBytes; }

bool LineStream::Queue::add(std::string_view line) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return stopped || !full(); });
  lines.emplace_back(line);
  bytes += line.size();
  changed.notify_all();
  return !stopped;
}

std::vector<std::string> LineStream::take(size_t most, const std::function<void()>& waits) {
  std::unique_lock lock(queue_->mutex);
  Queue& queue = *queue_;
  while (!queue.changed.wait_for(lock, kNotice, [&] { return queue.ended || !queue.lines.empty(); })) {
    lock.unlock();
    waits();
    lock.lock();
  }
  queue.changed.wait_for(lock, kPatience,
                         [&] { return queue.ended || queue.full() || queue.lines.size() >= most; });
  std::vector<std::string> taken;
  while (!queue.lines.empty() && taken.size() < most) {
    queue.bytes -= queue.lines.front().size();
    taken.push_back(std::move(queue.lines.front()));
    queue.lines.pop_front();
  }
  queue.changed.notify_all();
  if (taken.empty() && queue.error) std::rethrow_exception(queue.error);
  return taken;
}

}  // namespace mtf
