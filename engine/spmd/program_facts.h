// Facts about a program, for people: every tensor, contraction and collective with the operation and the
// layer it belongs to, and counters by kind of operation (docs/architecture.md "Counters of explain").
// Nothing is run and nothing depends on the number of positions: the cost is that of looking at each
// instruction once.
//
//   const ProgramFacts facts = explain(program);
//   facts.flops, facts.bytes_sent;                     // what Executor::counters() counts in a run
//   for (const CollectiveFact& c : facts.collectives) ...
//   counter_totals(facts.counters).at("allreduce");    // with every prefix summed
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/spmd/program.h"

namespace mtf {

/// What a result belongs to.
struct Origin {
  std::string operation;  ///< "einsum"; for what the partitioner adds: "slice", "all_gather", "copy", ...
  std::string path;       ///< scope of the layer, "decoder/block_000"; empty: outside all of them
  Phase phase = Phase::kForward;
};

/// One result of an instruction; its shape and layout are those of Program::values[value].
struct TensorFact {
  ValueId value = kNoValue;
  Origin origin;      ///< of a collective: its own name, and the layer that it belongs to
  int64_t times = 1;  ///< how often it is made in a run
};

/// An operation that sums products. Its volume is the union of the dimensions of its operands.
struct ContractionFact {
  Origin origin;
  Shape volume;             ///< global sizes
  Layout layout;            ///< of the volume
  int64_t times = 1;        ///< in a run
  double flops = 0;         ///< of one position in a run
  double unique_flops = 0;  ///< of the whole contraction in a run, if no position repeated another's work
  AxisMask repeated = 0;    ///< mesh dimensions (of more than one position) along which all do the same work
};

/// One tensor that a collective moves. The tensors of a bucket travel together: they have one `message`.
struct CollectiveFact {
  std::string kind;  ///< "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "exchange"
  AxisMask axes = 0;
  /// Of a reduction the operation that makes the partial sum, of a shift the shift; of gathers and
  /// all-to-alls the operation that needs the result, or for a variable at rest the one that makes it.
  Origin origin;
  std::string variable;  ///< that it reads or writes; empty: none
  ValueId result = kNoValue;
  int64_t message = 0;    ///< running number of the instruction
  int64_t times = 1;      ///< in a run
  double bytes_sent = 0;  ///< by one position (the mean over positions) each time
};

/// What counts under one name, over all positions and in a run.
struct ProgramCounter {
  double elements = 0;  ///< of contractions: multiply-adds
  double bytes = 0;     ///< of collectives: sent; of tensors: their size; of contractions: 0
};
using ProgramCounters = std::map<std::string, ProgramCounter>;

/// What collectives over one set of mesh dimensions send.
struct Traffic {
  int64_t messages = 0;   ///< in a run
  double bytes_sent = 0;  ///< by one position in a run
};

struct ProgramFacts {
  std::vector<TensorFact> tensors;  ///< in the order in which they are made
  std::vector<ContractionFact> contractions;
  std::vector<CollectiveFact> collectives;
  std::map<AxisMask, Traffic> traffic;  ///< by the mesh dimensions of the collectives
  /// variables/*, output/*, output_unique/*, einsum, einsum_unique, allreduce/AXES/*, reducescatter/AXES/*,
  /// allconcat/AXIS/*, alltoall/AXIS/*, shift[N]: docs/architecture.md "Counters of explain". Bodies of loops
  /// count as often as they run.
  ProgramCounters counters;
  double flops = 0;         ///< of contractions, of one position in a run
  double unique_flops = 0;  ///< of all contractions in a run, if no position repeated another's work
  double model_flops = 0;   ///< of these, without what is recomputed
  double repeated_flops =
      0;                  ///< of `flops`, those that would be saved if no position repeated another's work
  double bytes_sent = 0;  ///< by one position in a run
  int64_t messages = 0;   ///< collectives in a run
};

ProgramFacts explain(const Program& program);

/// "forward", "backward", "update".
std::string_view name_of(Phase phase);

/// The counters with a sum for each prefix: `allreduce` and `allreduce/[0]` of allreduce/[0]/einsum_op.
ProgramCounters counter_totals(const ProgramCounters& counters);

}  // namespace mtf
