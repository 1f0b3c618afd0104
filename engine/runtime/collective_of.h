// What a collective instruction of a program asks of the communicator.
#pragma once

#include "engine/comm/remote_groups.h"
#include "engine/spmd/program.h"

namespace mtf {

/// For one input of the instruction.
Collective collective_of(const Program& program, const Instruction& instruction, ValueId input);

/// Mesh dimensions over which a value has copies of its own. `replicate`: every position has one
/// (run.check_replicas).
AxisMask stored_over(const Program& program, ValueId id, bool replicate);
/// Mesh dimensions over which an instruction runs once for each coordinate.
AxisMask computed_over(const Program& program, const Instruction& instruction, bool replicate);

/// The groups of input number `i`, without addresses.
RemoteGroupRequest groups_of(const Program& program, const Instruction& instruction, size_t i,
                             bool replicate);
/// Any process needs what another one has.
bool crosses_processes(const Program& program, const Instruction& instruction, const HostedMesh& mesh,
                       bool replicate);

}  // namespace mtf
