// How long collectives that run beside the computation may take: from their start to their done they are in
// flight, and what they read keeps its memory until it has been sent.
//
//   %a = all_reduce_start(%g, sum, data)     // %g is read until the done
//   ..                                       // computation goes on
//   done(%a)
#pragma once

#include <functional>
#include <optional>

#include "engine/spmd/program.h"

namespace mtf {

struct FlightOptions {
  /// Bytes by which operands in flight may enlarge the temporaries of a position; nothing: a fiftieth of
  /// these.
  std::optional<int64_t> more = {};
  /// Bytes that a collective has for itself while it is in flight, beside the temporaries; null: none. The
  /// same in all processes.
  std::function<int64_t(const Program& program, const Instruction& instruction)> scratch = {};
};

/// Puts each done as late as its result and memory allow, and writes into Instruction::kept what the
/// collectives read until then. Along the program the operands in flight, which nothing else reads any more,
/// may fill what the step leaves free below its largest need of temporaries on a position, and take `more`
/// bytes beyond it; the scratch memory of several takes no more than `more` or what the largest has. A done
/// stands before what writes over an operand. Collectives land in the order in which they started. For
/// programs after reuse_memory.
Program land_collectives(Program program, const FlightOptions& options = {});

}  // namespace mtf
