#include "trainer/signals.h"

#include <csignal>

namespace mtf {
namespace {

volatile std::sig_atomic_t received_signal = 0;

void remember(int signal) { received_signal = signal; }

void handle(int signal, void (*handler)(int), unsigned flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = static_cast<int>(flags);
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

StopSignals::StopSignals() {
  received_signal = 0;
  for (const int signal : {SIGTERM, SIGINT}) handle(signal, remember, SA_RESTART | SA_RESETHAND);
}

StopSignals::~StopSignals() {
  for (const int signal : {SIGTERM, SIGINT}) handle(signal, SIG_DFL, 0);
}

int StopSignals::received() { return received_signal; }

}  // namespace mtf
