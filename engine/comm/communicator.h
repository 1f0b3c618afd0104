// Collectives between the processes that host positions of a mesh.
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

/// One group of a collective between processes, as this process sees it: some of the members' inputs are
/// here, and some of the results are wanted here.
struct RemoteGroup {
  /// A process that wants results of the group.
  struct Consumer {
    int process = 0;
    std::vector<int64_t> members;  ///< whose results it wants, each once, ascending; kAllReduce: any one
    std::vector<int> suppliers;    ///< by member: the process that gives it the member's input (itself, where
                                   ///< it holds it)
  };
  int64_t base = 0;                 ///< the group's first mesh position, by which all processes order groups
  std::vector<Consumer> consumers;  ///< by process
  std::vector<const std::byte*> inputs;  ///< by member; null where this process does not hold it
  /// Of the members that this process wants, in the order of Consumer::members; each may be wanted in several
  /// places (copies of the same bits).
  std::vector<std::vector<std::byte*>> results;
};

/// One input and output value of a collective instruction.
struct RemotePart {
  Collective collective;
  std::vector<RemoteGroup> groups;  ///< those of which this process is a consumer or a supplier; by base
  /// The same in all processes: processes that have all of their groups in common (remote_groups.h). Empty:
  /// there are others.
  std::vector<std::vector<int>> process_groups;
  /// For communicators on a device, in its memory: where it is false, the results are left as they are. All
  /// parts have the same.
  const bool* guard = nullptr;
};

/// A collective between processes, prepared once and run many times. All processes start the same ones in the
/// same order.
class RemoteCollective {
 public:
  virtual ~RemoteCollective() = default;
  /// Queues it. Until wait() has returned, inputs keep their values and results belong to it.
  virtual void start() = 0;
  /// Throws Error (kPeerLost) that names the process that is missing.
  virtual void wait() = 0;
  /// Payload bytes that this process has sent in the last run.
  virtual double bytes_sent() const = 0;
};

/// Bytes that every process is about to have.
class PendingGather {
 public:
  virtual ~PendingGather() = default;
  /// Those of each process, by process. Throws Error (kPeerLost).
  virtual std::vector<std::string> wait() = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int process() const { return 0; }
  virtual int processes() const { return 1; }
  /// Operands of collectives are in the memory of the backend's device; start() and wait() enqueue. Else they
  /// are in host memory.
  virtual bool is_on_device() const { return false; }
  /// For groups over several processes. The parts run as one; they have the same kind, reduction and dtype.
  /// `name`: what messages call it, such as "all_reduce grads/layer_1/kernel over data".
  virtual std::unique_ptr<RemoteCollective> prepare(std::vector<RemotePart> parts,
                                                    const std::string& name) = 0;
  /// Sends bytes of the host to all processes, in the order of all other collectives.
  virtual std::unique_ptr<PendingGather> start_gather(std::string bytes, const std::string& name) = 0;
  /// Throws Error (kPeerLost) when another process is known to be lost; does not wait. From any thread.
  virtual void check() {}
};

/// Null: one process.
Hosting hosting_of(const Communicator* communicator);
/// The bytes of each process, by process.
std::vector<std::string> all_gather(Communicator& communicator, std::string bytes, const std::string& name);
/// The bytes that process 0 gives; those of the others are ignored.
std::string broadcast(Communicator& communicator, std::string bytes, const std::string& name);

/// Of a process that is alone.
class InProcessCommunicator : public Communicator {
 public:
  /// There are no other processes: aborts.
  std::unique_ptr<RemoteCollective> prepare(std::vector<RemotePart> parts, const std::string& name) override;
  std::unique_ptr<PendingGather> start_gather(std::string bytes, const std::string& name) override;
};

}  // namespace mtf
