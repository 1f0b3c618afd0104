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
  // open() takes the lowest free descriptor, so /dev/null replaces exactly the streams that are closed.
  for (int descriptor = 0; descriptor <= STDERR_FILENO;) {
    descriptor = ::open("/dev/null", O_RDWR);
    if (descriptor > STDERR_FILENO) ::close(descriptor);
    if (descriptor < 0) break;
  }
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
