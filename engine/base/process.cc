#include "engine/base/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <span>
#include <vector>

#include "engine/base/hash.h"

namespace mtf {

void prepare_process() {
  ::signal(SIGXFSZ, SIG_IGN);
  // Programs that this process starts get the default action back, which an ignored signal would not.
  ::signal(SIGPIPE, [](int) {});
  // open() takes the lowest free descriptor.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", stream == STDOUT_FILENO ? O_RDONLY : O_RDWR);
}

void end_by_broken_pipe() {
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t broken_pipe;  // Gloo blocks it in threads that send
  ::sigemptyset(&broken_pipe);
  ::sigaddset(&broken_pipe, SIGPIPE);
  ::pthread_sigmask(SIG_UNBLOCK, &broken_pipe, nullptr);
  ::raise(SIGPIPE);
}

std::string build_of_program(std::string_view version) {
  Hash128 hash;
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::vector<char> piece(1 << 20);
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())), file.gcount() > 0)
    hash.add(std::as_bytes(std::span(piece).first(static_cast<size_t>(file.gcount()))));
  return fmt::format("{}, program file {}", version, hash.hex());
}

std::string machine_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace mtf
