// Translates a collective instruction of a program into requests to the communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "engine/comm/remote_groups.h"
#include "engine/spmd/program.h"

namespace mtf {

/// The collective that the instruction performs on one of its inputs.
Collective collective_of(const Program& program, const Instruction& instruction, ValueId input);

/// The copies of a value that are stored; with `replicate` (run.check_replicas) one on each position that has the value.
Copies stored_over(const Program& program, ValueId id, bool replicate);
/// The copies of its results: an instruction runs once for each of them.
Copies computed_over(const Program& program, const Instruction& instruction, bool replicate);

/// A key that is equal for instructions that request the same collective; they may differ in the ids of their
/// values and in the name of their guard.
using CollectiveRequest = std::vector<int64_t>;
CollectiveRequest request_of(const Program& program, const Instruction& instruction, bool replicate);

/// True if any process needs an input that another one holds.
bool crosses_processes(const Program& program, const Instruction& instruction, const HostedMesh& mesh,
                       bool replicate);

/// The parts of the request, one for each input of the instruction. `address` gives the slice of a value at a
/// hosted position.
std::vector<RemotePart> remote_parts(const Program& program, const Instruction& instruction,
                                     RemoteGroupPlans& plans, bool replicate,
                                     const std::function<std::byte*(ValueId id, int64_t position)>& address);
/// The same parts with dummy addresses (and a dummy guard, if the instruction has one), for callers that plan
/// before the values have memory.
std::vector<RemotePart> planned_parts(const Program& program, const Instruction& instruction,
                                      RemoteGroupPlans& plans, bool replicate);

}  // namespace mtf
