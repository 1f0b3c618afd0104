#include "engine/base/signals.h"

#include <string.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <csignal>
#include <ctime>

#include "engine/base/check.h"

namespace mtf {
namespace {

volatile std::sig_atomic_t received_signal = 0;
/// The time of the first signal that this process received itself, in seconds since the machine was started;
/// 0: none.
volatile std::sig_atomic_t received_at = 0;
bool stop_signals_exist = false;

std::sig_atomic_t seconds_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::sig_atomic_t>(now.tv_sec);
}

/// Lets a second signal end the process, but not one that comes at once: `timeout` sends each signal twice,
/// and a terminal and a launcher may both send one.
void remember(int signal) {
  if (received_at == 0) {
    received_at = seconds_now();
    StopSignals::receive(signal);
  } else if (seconds_now() - received_at > 1) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // delivered when this handler has returned
  }
}

void handle(int signal, void (*handler)(int), unsigned flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = static_cast<int>(flags);
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

constexpr std::array kEnding = {SIGHUP, SIGINT, SIGTERM};
volatile std::sig_atomic_t has_path = 0;
std::array<char, PATH_MAX> path_to_remove;

/// SA_RESETHAND has restored the default action, so that the signal, when it is delivered again, ends the
/// process.
void remove_and_end(int signal) {
  if (has_path != 0) ::unlink(path_to_remove.data());
  ::raise(signal);
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// True under nohup. A shell's background processes ignore SIGINT, too, but a run must end by it.
bool stays_ignored(int signal) { return signal == SIGHUP && is_ignored(signal); }

}  // namespace

std::string signal_name(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name == nullptr ? "" : std::string("SIG") + name;
}

StopSignals::StopSignals() {
  received_signal = 0;
  received_at = 0;
  for (const int signal : kEnding) {
    if (!stays_ignored(signal)) handle(signal, remember, SA_RESTART);
  }
  stop_signals_exist = true;
}

StopSignals::~StopSignals() {
  stop_signals_exist = false;
  for (const int signal : kEnding) {
    if (!stays_ignored(signal)) handle(signal, SIG_DFL, 0);
  }
}

bool StopSignals::are_handled() { return stop_signals_exist; }

int StopSignals::received() { return received_signal; }

void StopSignals::receive(int signal) {
  if (received_signal == 0) received_signal = signal;
}

BlockedSignals::BlockedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGCHLD}) sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
}

BlockedSignals::~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

RemovedBySignal::RemovedBySignal(const std::string& path) {
  MTF_CHECK(has_path == 0, "two files to be removed by signals: {}", path);
  if (path.size() >= path_to_remove.size()) return;  // too long: no such file can exist
  path.copy(path_to_remove.data(), path.size());
  path_to_remove[path.size()] = '\0';
  has_path = 1;
  for (const int signal : kEnding) {
    if (!is_ignored(signal)) handle(signal, remove_and_end, SA_RESETHAND);
  }
}

RemovedBySignal::~RemovedBySignal() {
  for (const int signal : kEnding) {
    if (!is_ignored(signal)) handle(signal, SIG_DFL, 0);
  }
  has_path = 0;
}

}  // namespace mtf
