// The processes of a run: how they find each other, make sure that they do the same, and part.
//
//   ProcessGroup group = ...connect_processes(launch, options);     // all have come; each knows its rank
//   group->agree({{"program", program_hash(program)}, {"mesh", "rows=2 cols=4"}, ...});   // or names who
//   differs
//   ... group->communicator() ...
//   group->leave();                                           // or group->fail(error)
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/comm/communicator.h"
#include "engine/comm/launch/launch.h"
#include "engine/comm/rendezvous/store.h"
#include "engine/comm/security/access.h"
#include "engine/core/profile.h"

namespace mtf {

struct ProcessGroupOptions {
  Access access = {};
  Milliseconds connect_timeout{300'000};
  Milliseconds collective_timeout{600'000};
  std::string flight_record;  ///< file that the last collectives are written to on failure; empty: none
  std::string build;          ///< of the program: version and hash of the executable
  std::function<void(const std::string& line)> log;  ///< warnings of the watchdog; one line each
  void (*prepare_thread)() = nullptr;                ///< runs in each thread that touches tensors
  Profile* profile = nullptr;                        ///< that messages are spans of; null: none
};

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual const Launch& launch() const = 0;
  int rank() const { return launch().rank; }
  int size() const { return launch().size; }
  bool is_first() const { return rank() == 0; }

  /// Compares fields with those of process 0 and connects every process with every other; communicator() may
  /// be used from then on. Throws Error (kConfig) that names the first rank and field that differ, with both
  /// values: the same error in all processes.
  virtual void agree(const std::vector<std::pair<std::string, std::string>>& fields) = 0;
  virtual Communicator& communicator() = 0;

  /// Calls `action` in process 0, and then in the others: files that the first one makes are there for them.
  /// What process 0 throws ends them all. Through the store: before agree(), or beside collectives.
  virtual void first_then_others(const std::string& name, const std::function<void()>& action) = 0;
  /// Through the store, beside collectives, from any thread: each process gives a text under `name`, and
  /// process 0 gets those of all (the others get nothing at once). A name may be used once.
  virtual std::vector<std::string> collect(const std::string& name, const std::string& text) = 0;

  /// Throws `error`, after it has told the others; from any thread, beside collectives.
  [[noreturn]] virtual void refuse(const Error& error) = 0;

  /// The end of a run that went well: returns when all processes have come so far.
  virtual void leave() = 0;
  /// The end of one that did not: tells the others why, and writes the flight record. What is to be printed
  /// comes back: for a lost peer the root cause, as far as the others tell.
  virtual Error fail(const Error& error) noexcept = 0;
};

/// A run of one process.
std::unique_ptr<ProcessGroup> one_process();
/// One that cannot take part in its run: like a run of one process, but fail() tells the others, if any wait
/// for it within the time.
std::unique_ptr<ProcessGroup> absent_process(const Launch& launch, const Access& access,
                                             const std::string& build, Milliseconds patience);
/// Meets the other processes of `launch`; one_process() where there are none. Throws Error (kPeerLost) that
/// names the ranks that did not come within the time, (kConfig) for a rank that two processes claim, another
/// number of processes, another version of the program or another secret, and where there is none and other
/// machines are to be reached, (kSystem) when the port cannot be served.
std::unique_ptr<ProcessGroup> connect_processes(const Launch& launch, const ProcessGroupOptions& options);

}  // namespace mtf
