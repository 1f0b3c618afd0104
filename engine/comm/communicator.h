// Collectives among the positions of a mesh that differ only in some mesh dimensions.
//
// A collective is prepared once. Sums follow one fixed tree over the mesh coordinates (DESIGN "Sums"), so
// that every implementation on the CPU gives the same bits: sum(lo, hi) = sum(lo, mid) + sum(mid, hi), mid =
// lo + the largest power of two below hi - lo; several mesh dimensions: the last first, nested; in float32
// (float64 for float64).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/hosted_mesh.h"
#include "engine/core/layout.h"

namespace mtf {

/// Entries that move along a dimension; `source` is a member of the group.
struct Transfer {
  int64_t source = 0;
  int64_t source_begin = 0;
  int64_t begin = 0;
  int64_t count = 0;
};

struct Collective {
  enum class Kind { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kExchange };

  Kind kind = Kind::kAllReduce;
  Reduction reduction = Reduction::kSum;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> group;  ///< sizes of the mesh dimensions that the group spans; members count row-major
  std::vector<int64_t> input;  ///< sizes of one member's input, row-major
  int dimension = -1;          ///< scattered, gathered, split (all_to_all) or shifted axis of the input
  int concat_dimension = -1;   ///< all_to_all: the axis that grows
  std::vector<std::vector<Transfer>>
      transfers;  ///< exchange: what each member receives; the rest becomes zero

  int64_t members() const;
};

/// A collective for one group size and shape. Stateless: used for all groups.
class PreparedCollective {
 public:
  virtual ~PreparedCollective() = default;
  /// Independent parts of one member's result; a pure function of the shapes.
  virtual int64_t tasks() const = 0;
  /// Makes tasks [begin, end) of the result of `member` from the inputs of all members. Returns the bytes
  /// that this member receives from others when every slice is reduced by its owner (reduce-scatter, then
  /// all-gather), counted from the elements handled.
  virtual double run(std::span<const std::byte* const> inputs, int64_t member, std::byte* result,
                     int64_t begin, int64_t end) const = 0;
};

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
  /// For groups whose members are all in this process.
  virtual std::unique_ptr<PreparedCollective> prepare(const Collective& collective) = 0;
  /// For groups over several processes. The parts run as one; they have the same kind, reduction and dtype.
  /// `name`: what messages call it, such as "all_reduce grads/layer_1/kernel over data".
  virtual std::unique_ptr<RemoteCollective> prepare(std::vector<RemotePart> parts,
                                                    const std::string& name) = 0;
  /// Sends bytes of the host to all processes, in the order of all other collectives.
  virtual std::unique_ptr<PendingGather> start_gather(std::string bytes, const std::string& name) = 0;
};

/// Null: one process.
Hosting hosting_of(const Communicator* communicator);
/// The bytes of each process, by process.
std::vector<std::string> all_gather(Communicator& communicator, std::string bytes, const std::string& name);
/// The bytes that process 0 gives; those of the others are ignored.
std::string broadcast(Communicator& communicator, std::string bytes, const std::string& name);

/// Among positions of one process: results are made straight from the members' memory.
class InProcessCommunicator : public Communicator {
 public:
  std::unique_ptr<PreparedCollective> prepare(const Collective& collective) override;
  /// There are no other processes: aborts.
  std::unique_ptr<RemoteCollective> prepare(std::vector<RemotePart> parts, const std::string& name) override;
  std::unique_ptr<PendingGather> start_gather(std::string bytes, const std::string& name) override;
};

}  // namespace mtf
