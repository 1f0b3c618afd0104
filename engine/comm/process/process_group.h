// A process group contains the processes of a run: they find each other, check that they run the same
// program, and leave together.
//
//   std::unique_ptr<ProcessGroup> group = connect_processes(launch, options);   // all processes are there
//   group->agree({{"program", program_hash(program)}, {"mesh", "rows=2 cols=4"}, ...});   // same in all
//   ... group->communicator() ...
//   group->leave();                                                             // or group->fail(error)
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
  bool local = true;          ///< messages within a machine go from memory to memory, not through sockets
  std::string flight_record;  ///< file for the last collectives if the run fails; empty: none
  std::string build;          ///< version and hash of the executable
  std::function<void(const std::string& line)> log;  ///< receives warnings, one line each; may be empty
  void (*prepare_thread)() = nullptr;                ///< runs in each thread that accesses tensors
  Profile* profile = nullptr;                        ///< records collectives as spans; null: none
};

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual const Launch& launch() const = 0;
  int rank() const { return launch().rank; }
  int size() const { return launch().size; }
  bool is_first() const { return rank() == 0; }

  /// Compares fields with those of process 0 and connects each process to every other; communicator() may be
  /// used afterwards. Throws Error (kConfig) that names the first rank and field that differ, with both
  /// values; all processes throw the same error.
  virtual void agree(const std::vector<std::pair<std::string, std::string>>& fields) = 0;
  virtual Communicator& communicator() = 0;

  /// Calls `action` in process 0, then in the others, which can thus use files that process 0 creates. An
  /// error of process 0 ends all processes. It uses the store, so it may be called before agree() and during
  /// collectives.
  virtual void first_then_others(const std::string& name, const std::function<void()>& action) = 0;
  /// Collects a text of each process under `name`, which may be used only once. Process 0 gets all texts; the
  /// others return at once without any. It uses the store, so it may be called during collectives and from
  /// any thread.
  virtual std::vector<std::string> collect(const std::string& name, const std::string& text) = 0;

  /// Returns the texts that all processes give under `name`, which may be used only once, by rank. It uses the
  /// store, so it may be called before agree().
  virtual std::vector<std::string> exchange(const std::string& name, const std::string& text) = 0;

  /// Returns what make() returns in the process that asks for `name` first; the others wait for it. It uses the
  /// store, so it may be called before agree().
  virtual std::string made_once(const std::string& name, const std::function<std::string()>& make) = 0;

  /// Tells the other processes about `error`, and throws it; from any thread, even during collectives.
  [[noreturn]] virtual void refuse(const Error& error) = 0;

  /// Waits for the error that another process is about to publish with refuse() or fail(), and throws it as all waits do.
  [[noreturn]] virtual void await_failure(int process) = 0;

  /// Ends a successful run: returns when all processes have called it.
  virtual void leave() = 0;
  /// Ends a run that failed: tells the other processes why, and writes the flight record. Returns the error
  /// to print; for a lost peer this is the root cause, as far as the other processes have reported it.
  virtual Error fail(const Error& error) noexcept = 0;
};

/// Returns the group of a run of one process.
std::unique_ptr<ProcessGroup> one_process();
/// Returns the group of a process that cannot take part in its run. It acts like a run of one process, but
/// fail() tells the other processes, if they are waiting for it, within `patience`.
std::unique_ptr<ProcessGroup> absent_process(const Launch& launch, const Access& access,
                                             const std::string& build, Milliseconds patience);
/// Meets the other processes of `launch`; returns one_process() if there are none. Throws Error (kPeerLost)
/// that names the ranks that did not come in time; (kConfig) if two processes claim the same rank, if the
/// number of processes, the version of the program or the secret differ, or if other machines are involved
/// and there is no secret; (kSystem) if the port cannot be served.
std::unique_ptr<ProcessGroup> connect_processes(const Launch& launch, const ProcessGroupOptions& options);

}  // namespace mtf
