#include "trainer/process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

namespace mtf {

void prepare_process() {
  ::signal(SIGXFSZ, SIG_IGN);
  // The lowest free number is taken, so that these three come out of closed streams alone.
  for (int descriptor = 0; descriptor <= STDERR_FILENO;) {
    descriptor = ::open("/dev/null", O_RDWR);
    if (descriptor > STDERR_FILENO) ::close(descriptor);
    if (descriptor < 0) break;
  }
}

}  // namespace mtf
