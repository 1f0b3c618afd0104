// Collectives between processes, each of which hosts positions of a mesh.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/comm/collective.h"
#include "engine/core/hosted_mesh.h"

namespace mtf {

using ProcessGroups = std::vector<std::vector<int>>;

/// A group of a collective between processes, as seen by this process: it has some of the members' inputs,
/// and needs some of the results.
struct RemoteGroup {
  /// A process that needs results of the group.
  struct Consumer {
    int process = 0;
    /// The members whose results it needs, each once, ascending; for kAllReduce any one member.
    std::vector<int64_t> members;
    /// The process that gives it each member's input (itself, if it has that input). Consumers with the same suppliers
    /// share the list, since both lists may be long.
    std::shared_ptr<const std::vector<int>> suppliers;
  };
  int64_t base = 0;  ///< first mesh position of the group; all processes order groups by it
  std::shared_ptr<const std::vector<Consumer>> consumers;  ///< ascending by process; equal lists are shared
  std::vector<const std::byte*> inputs;  ///< input of each member; null if this process does not have it
  /// The destinations of each result that this process needs, in the order of Consumer::members. One result
  /// may have several destinations, which get the same bits.
  std::vector<std::vector<std::byte*>> results;
};

/// One input and output value of a collective instruction.
struct RemotePart {
  Collective collective;
  /// The groups of which this process is a consumer or a supplier, ordered by base.
  std::vector<RemoteGroup> groups;
  /// The process groups over which the groups are spread evenly (RemoteGroupPlan in remote_groups.h); the same in all
  /// processes. Null: the groups are spread in another way.
  std::shared_ptr<const ProcessGroups> process_groups;
  /// A flag in the memory of the device, for communicators on a device: if it is false, the results are not
  /// written. All parts have the same guard.
  const bool* guard = nullptr;
};

/// A collective between processes, which is prepared once and run many times. All processes must start the
/// same collectives in the same order.
class RemoteCollective {
 public:
  virtual ~RemoteCollective() = default;
  /// Queues the collective. Until wait() returns, the inputs must not change and the results must not be
  /// used.
  virtual void start() = 0;
  /// Waits for the end of the collective. Throws Error (kPeerLost) that names the process that is missing.
  virtual void wait() = 0;
  /// Returns the payload bytes that this process sent in the last run.
  virtual double bytes_sent() const = 0;
};

/// A running gather of bytes from all processes.
class PendingGather {
 public:
  virtual ~PendingGather() = default;
  /// Returns the bytes of each process, ordered by rank. Throws Error (kPeerLost).
  virtual std::vector<std::string> wait() = 0;
};

/// Runs collectives between the processes of a run; by default there is one process.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int process() const { return 0; }
  virtual int processes() const { return 1; }
  /// True if the operands of collectives are in the memory of the backend's device and start() and wait()
  /// enqueue work on it; false if they are in host memory.
  virtual bool is_on_device() const { return false; }
  /// Prepares a collective for groups that span several processes. The parts run as one collective; they have
  /// the same kind, reduction and dtype. `name` is its name in messages, such as "all_reduce
  /// grads/layer_1/kernel over data".
  virtual std::unique_ptr<RemoteCollective> prepare(std::vector<RemotePart> parts,
                                                    const std::string& name) = 0;
  /// Sends bytes of the host to all processes. Gathers have their place in the order of all collectives.
  virtual std::unique_ptr<PendingGather> start_gather(std::string bytes, const std::string& name) = 0;
  /// Throws Error (kPeerLost) if another process is known to be lost; does not wait. May be called from any
  /// thread.
  virtual void check() {}
};

/// Returns the number of processes and the index of this one; null stands for one process.
Hosting hosting_of(const Communicator* communicator);
/// Returns the bytes of each process, ordered by rank.
std::vector<std::string> all_gather(Communicator& communicator, std::string bytes, const std::string& name);
/// Returns the bytes of process 0; those of the other processes are ignored.
std::string broadcast(Communicator& communicator, std::string bytes, const std::string& name);

/// The communicator of a run of one process.
class InProcessCommunicator : public Communicator {
 public:
  /// Aborts, because there are no other processes.
  std::unique_ptr<RemoteCollective> prepare(std::vector<RemotePart> parts, const std::string& name) override;
  std::unique_ptr<PendingGather> start_gather(std::string bytes, const std::string& name) override;
};

}  // namespace mtf
