// Facts about a program for people: every tensor, contraction and collective with the operation and layer
// that it belongs to, and counters by kind of operation ("Counters of explain" in docs/architecture.md).
// Nothing is run, and the cost does not depend on the number of positions: each instruction is visited once.
//
//   const ProgramFacts facts = program_facts(program);
//   facts.flops, facts.bytes_sent;                     // what Executor::counters() counts in a run
//   for (const CollectiveFact& c : facts.collectives) ...
//   counter_totals(facts.counters).at("allreduce");    // summed over all counters with this prefix
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/spmd/program.h"
#include "engine/spmd/work.h"

namespace mtf {

/// The operation and layer that a result belongs to.
struct Origin {
  /// Such as "einsum"; for instructions added by the partitioner "slice", "all_gather", "copy", ...
  std::string_view operation;
  NamedScope layer;  ///< such as "decoder/block_000"
  Phase phase = Phase::kForward;
};

/// One result of an instruction. Its shape and layout are those of Program::values[value].
struct TensorFact {
  ValueId value = kNoValue;
  Origin origin;      ///< a collective has its own name, and the layer that it belongs to
  int64_t times = 1;  ///< number of times it is computed in a run
};

/// An operation that sums products. Its volume is the union of the dimensions of its operands.
struct ContractionFact {
  Origin origin;
  Shape volume;       ///< global sizes
  Layout layout;      ///< layout of the volume
  int64_t times = 1;  ///< number of executions in a run
  double flops =
      0;  ///< FLOPs of one position in a run; with stages of a pipeline the mean over all positions
  /// FLOPs of the whole contraction in a run, if no position repeated another's work.
  double unique_flops = 0;
  /// Mesh dimensions (of size greater than one) along which all positions do the same work.
  AxisMask repeated = 0;
};

/// One tensor that a collective moves. The tensors of a bucket travel together and share one `message`.
struct CollectiveFact {
  std::string_view kind;  ///< "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "exchange", "send"
  AxisMask axes = 0;
  /// For a reduction, the operation that makes the partial sum; for a shift, the shift. For gathers and
  /// all-to-alls, the operation that needs the result, or the one that makes it if it is a variable at rest.
  Origin origin;
  std::string variable;  ///< variable that it reads or writes; empty if none
  ValueId result = kNoValue;
  int64_t message = 0;    ///< sequence number of the instruction
  int64_t times = 1;      ///< number of executions in a run
  double bytes_sent = 0;  ///< bytes that one position sends each time (the mean over positions)
};

/// An instruction and what one position does for it each time; with stages of a pipeline the mean over all positions.
struct WorkFact {
  Origin origin;
  int64_t times = 1;  ///< number of executions in a run
  Work work;
};

/// A counter with one name, over all positions in a run.
struct ProgramCounter {
  double elements = 0;  ///< number of elements; multiply-adds for contractions
  double bytes = 0;     ///< bytes sent by collectives, or the size of tensors; 0 for contractions
};
using ProgramCounters = std::map<std::string, ProgramCounter>;

/// The traffic of the collectives over one set of mesh dimensions.
struct Traffic {
  int64_t messages = 0;   ///< number of collectives in a run
  double bytes_sent = 0;  ///< bytes that one position sends in a run
};

struct ProgramFacts {
  std::vector<TensorFact> tensors;  ///< in the order of computation
  std::vector<ContractionFact> contractions;
  std::vector<CollectiveFact> collectives;
  std::map<AxisMask, Traffic> traffic;  ///< by the mesh dimensions of the collectives
  /// The counters variables/*, output/*, output_unique/*, einsum, einsum_unique, allreduce/AXES/*,
  /// reducescatter/AXES/*, allconcat/AXIS/*, alltoall/AXIS/*, shift[N]: see "Counters of explain" in
  /// docs/architecture.md. Bodies of loops count as often as they run.
  ProgramCounters counters;
  double flops = 0;         ///< FLOPs of contractions of one position in a run
  double unique_flops = 0;  ///< FLOPs of all contractions in a run, if no position repeated another's work
  double model_flops = 0;   ///< the part of unique_flops that is not recomputation
  /// The part of `flops` that would be saved if no position repeated another's work.
  double repeated_flops = 0;
  double bytes_sent = 0;  ///< bytes that one position sends in a run
  int64_t messages = 0;   ///< number of collectives in a run
};

ProgramFacts program_facts(const Program& program);

/// Calls visit(fact) for each instruction but loops and waits, in their order.
void for_each_work(const Program& program, const std::function<void(const WorkFact&)>& visit);

/// "forward", "backward" or "update".
std::string_view name_of(Phase phase);

/// The counters plus a sum for each prefix: allreduce/[0]/einsum_op adds to `allreduce` and `allreduce/[0]`.
ProgramCounters counter_totals(const ProgramCounters& counters);

}  // namespace mtf
