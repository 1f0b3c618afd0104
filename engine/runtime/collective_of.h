// What a collective instruction of a program asks of the communicator.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

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

/// Equal for instructions that ask for the same, but for the values and a guard of another name.
using CollectiveRequest = std::vector<int64_t>;
CollectiveRequest request_of(const Program& program, const Instruction& instruction, bool replicate);

/// Any process needs what another one has.
bool crosses_processes(const Program& program, const Instruction& instruction, const HostedMesh& mesh,
                       bool replicate);

/// What the instruction asks for, one part for each of its inputs. `address`: the slice of a value at a
/// hosted position.
std::vector<RemotePart> remote_parts(const Program& program, const Instruction& instruction,
                                     const HostedMesh& mesh, bool replicate,
                                     const std::function<std::byte*(ValueId id, int64_t position)>& address);
/// The same, with its guard, before the values have memory: for what does not look at addresses.
std::vector<RemotePart> planned_parts(const Program& program, const Instruction& instruction,
                                      const HostedMesh& mesh, bool replicate);

}  // namespace mtf
