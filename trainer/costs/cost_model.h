// The cost model: how long the instructions of a program take on given hardware, which need not be there.
//
//   const CostModel model(hardware, placement);
//   model.seconds(work, cold);                     // one execution on a core
//   model.collective(program, instruction).network;
//
// A local instruction takes an overhead and the longer one of its products, at a rate by type and shape, and of its
// bytes, at rates by kind for those in the cache and those in memory, or of those in the host's memory over a
// GPU's link to it. Of bytes in memory that products read a share takes time beside the arithmetic. What is copied over that link while the GPU computes (action::Transfer) takes the time of its bytes.
// A process runs an instruction once for each of its positions with a result of their own, as Executor does: with at least
// as many of these as threads, each thread runs whole segments for one after the other; otherwise the threads share each
// instruction. Products of several positions with the same matrix, and sums of their products, are one product on a
// processor (JointPositions). Threads of several processes on a machine share its cores, as do more threads of one process
// than there are cores: those that have a part of the instruction.
//
// A collective within a process is a sum or a copy in memory. Between processes it takes the latency of its phases and
// its bytes over each link. Gloo sends directly: each process its share to each other one, in one phase or, for
// all-reduce, two. NCCL sums along rings within a machine and across machines (all GPUs of a machine send at once), or,
// where messages are small, along trees; the slowest link counts.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/hosted_mesh.h"
#include "engine/spmd/program.h"
#include "engine/spmd/work.h"
#include "trainer/config/hardware.h"

namespace mtf {

/// How a run uses the hardware, as seen by its first process.
struct Placement {
  HostedMesh mesh;
  int threads = 1;  ///< threads of a process; 1 on GPUs
  int processes_of_machine = 1;
  bool overlaps = true;     ///< computation goes on while collectives between processes run
  bool replicates = false;  ///< run.check_replicas
};

/// A local instruction as a process executes it.
struct ProcessWork {
  Work work;          ///< what one call does
  double cold = 0;    ///< bytes of a call that are not in the cache (ColdOperands)
  int64_t calls = 1;  ///< one for each position with a result of its own, or for groups of them
};

/// The time of a collective.
struct CollectiveTime {
  double network = 0;    ///< seconds until it is done; 0 within a process
  double processor = 0;  ///< seconds that it keeps the processor of computation from its work
};

/// collective() must not be called by several threads at a time.
class CostModel {
 public:
  CostModel(HardwareOptions hardware, Placement placement);

  const HardwareOptions& hardware() const { return hardware_; }
  const Placement& placement() const { return placement_; }
  bool is_gpu() const { return hardware_.device.kind == DeviceKind::kCuda; }

  /// The bytes of a core's share of the cache that are a thread's own: processes that take turns on a core share them.
  double cache_bytes() const;
  /// Seconds that a step takes besides its instructions.
  double step_seconds() const;
  /// The seconds of one execution on one core, where `active` cores are busy and `cold` bytes are not in the cache.
  double seconds(const Work& work, double cold, int active = 1) const;
  /// Seconds that a process needs at least for this work, however it is cut into pieces and shared by its threads.
  double least_seconds(const Work& work) const;
  /// The time of a stretch of local instructions, which a process runs `calls` times one after the other (the same number
  /// for all). The time of each is written to `times`.
  void segment(const std::vector<ProcessWork>& works, std::vector<double>& times) const;

  /// The seconds that a transfer (action::Transfer) takes of a GPU's link to its machine.
  double transfer(const Program& program, const Instruction& instruction) const;

  /// The number of these copies in the first process that has any.
  int64_t count(const Copies& copies) const {
    return copies.pin ? placement_.mesh.of_first(copies).size_of(copies) : placement_.mesh.size_of(copies);
  }

  /// Seconds that the last collective of a step between processes takes besides, as threads take turns on cores, where a process
  /// computes for so long in the step, and has messages for so long that computation stands still (CollectiveTime::processor).
  double turn_seconds(double computing, double messages) const;
  CollectiveTime collective(const Program& program, const Instruction& instruction) const;

  /// FLOPs that the devices of all processes can do in a second: the peak for `factors`.
  double peak_flops(FactorType factors) const;

 private:
  /// Processes of a group of positions that differ along some mesh dimensions.
  struct Group {
    int64_t members = 1;    ///< positions
    int64_t processes = 1;  ///< that have members
    int64_t groups = 1;     ///< that have members in this process
    /// By link: how many processes or blocks of processes meet over it.
    std::vector<int64_t> blocks;
  };
  const Group& group_of(AxisMask axes, AxisMask varies) const;
  Group make_group(AxisMask axes, AxisMask varies) const;
  double rate(FactorType factors) const;
  /// The share of its speed that a core keeps where `active` cores compute.
  double speed(int active) const;
  /// A product as the device computes it: its rates, extents, and the FLOPs of these.
  struct ProductCost {
    ProductRates rates;
    ProductExtents extents;
    double flops;
  };
  ProductCost product_cost(const Work& work) const;
  double product_seconds(const ProductCost& cost, FactorType factors) const;
  double attention_seconds(const Work& work) const;
  MemoryRate memory_rate(WorkKind kind) const;
  /// Seconds that a GPU's link takes for the bytes of `work` in the host's memory.
  double link_seconds(const Work& work) const { return work.host_bytes / hardware_.device.host_link; }
  double bytes_seconds(WorkKind kind, double bytes, double cold, int active) const;
  double within_process(const Program& program, const Instruction& instruction, const Group& group) const;
  /// Bytes of the operands of all groups that have members in this process, one operand for each group.
  static double given_bytes(const Program& program, const Instruction& instruction, const Group& group);
  double sent_by_process(const Program& program, const Instruction& instruction, const Group& group) const;
  double between_stages(const Program& program, const Instruction& instruction, const Copies& stored,
                        std::optional<int64_t> to) const;
  double directly(const Program& program, const Instruction& instruction, const Group& group) const;
  double by_library(const Program& program, const Instruction& instruction, const Group& group) const;
  /// How many times slower threads run where all threads of the processes of a machine compute, and there are fewer cores.
  double crowding() const;
  /// The share of a process in the cores of its machine; it may be less than one.
  double cores_of_process() const;

  HardwareOptions hardware_;
  Placement placement_;
  mutable std::map<std::pair<AxisMask, AxisMask>, Group> groups_;  ///< that collective() has met
};

}  // namespace mtf
