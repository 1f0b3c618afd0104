#include "trainer/decode/line_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "data/input_file.h"
#include "engine/checkpoint/file.h"
#include "engine/core/error.h"

namespace mtf {
namespace {

/// Lines that are read ahead.
constexpr size_t kAhead = 1 << 16;
/// How long take() waits for more lines behind the first.
constexpr std::chrono::milliseconds kPatience(20);
/// How often take() says that it waits for the first.
constexpr std::chrono::milliseconds kNotice(500);

/// Bytes of a pipe or terminal as they come.
size_t read_some(int descriptor, const std::string& name, char* buffer, size_t size) {
  ssize_t got;
  do {
    got = ::read(descriptor, buffer, size);
  } while (got < 0 && errno == EINTR);
  if (got < 0) throw Error(ErrorKind::kSystem, name + " cannot be read: " + system_message(errno));
  return static_cast<size_t>(got);
}

std::function<size_t(char*, size_t)> reader(const std::string& path) {
  if (path == "-") {
    return [](char* buffer, size_t size) { return read_some(STDIN_FILENO, "standard input", buffer, size); };
  }
  if (!is_stream(path)) {
    const auto file = std::make_shared<InputFile>(path, "a text");
    return [file](char* buffer, size_t size) {
      return static_cast<size_t>(file->read(buffer, static_cast<int64_t>(size)));
    };
  }
  const auto file = std::make_shared<File>(path, O_RDONLY);
  if (!file->open())
    throw Error(ErrorKind::kData, fmt::format("cannot open {}: {}", path, system_message(file->error())));
  return [file, path](char* buffer, size_t size) { return read_some(file->get(), path, buffer, size); };
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

void check_inputs(const Config& config, const NamedInput& first, const NamedInput& second,
                  size_t checkpoints) {
  if (is_stream(first.path) && first.path == second.path) {
    throw Error(ErrorKind::kConfig, config.mark(second.key),
                fmt::format("`{}` and `{}` are both {}", first.key, second.key, input_name(first.path)),
                "a file for one of them");
  }
  for (const NamedInput& input : {first, second}) {
    if (checkpoints < 2 || !is_stream(input.path)) continue;
    throw Error(ErrorKind::kConfig, config.mark(input.key),
                fmt::format("{} can be read for one checkpoint only, not for {}", input_name(input.path),
                            checkpoints),
                fmt::format("a file as `{}`", input.key));
  }
}

LineStream::LineStream(const std::string& path) : queue_(std::make_shared<Queue>()) {
  // A pipe opens once somebody writes to it: take() waits for that.
  std::thread([queue = queue_, path, read = is_stream(path) ? Read() : reader(path)] {
    std::exception_ptr error;
    try {
      read_lines(read ? read : reader(path), *queue);
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

bool LineStream::Queue::add(std::string line) {
  if (line.ends_with('\r')) line.pop_back();
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return stopped || lines.size() < kAhead; });
  lines.push_back(std::move(line));
  changed.notify_all();
  return !stopped;
}

void LineStream::read_lines(const Read& read, Queue& queue) {
  std::vector<char> buffer(1 << 16);
  std::string line;
  while (const size_t got = read(buffer.data(), buffer.size())) {
    size_t begin = 0;
    for (size_t i = 0; i < got; ++i) {
      if (buffer[i] != '\n') continue;
      line.append(buffer.data() + begin, i - begin);
      if (!queue.add(std::move(line))) return;
      line.clear();
      begin = i + 1;
    }
    line.append(buffer.data() + begin, got - begin);
  }
  if (!line.empty()) queue.add(std::move(line));
}

std::vector<std::string> LineStream::take(size_t most, const std::function<void()>& waits) {
  std::unique_lock lock(queue_->mutex);
  Queue& queue = *queue_;
  while (!queue.changed.wait_for(lock, kNotice, [&] { return queue.ended || !queue.lines.empty(); })) {
    lock.unlock();
    waits();
    lock.lock();
  }
  queue.changed.wait_for(lock, kPatience, [&] { return queue.ended || queue.lines.size() >= most; });
  std::vector<std::string> taken;
  while (!queue.lines.empty() && taken.size() < most) {
    taken.push_back(std::move(queue.lines.front()));
    queue.lines.pop_front();
  }
  queue.changed.notify_all();
  if (taken.empty() && queue.error) std::rethrow_exception(queue.error);
  return taken;
}

}  // namespace mtf
