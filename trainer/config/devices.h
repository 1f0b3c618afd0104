// The processors of this process, as key `devices` names them. A process drives one GPU: a run on several has
// one process for each, which mtf-train starts itself where no launcher has.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/instruction_set.h"

namespace mtf {

struct Config;

struct Devices {
  bool is_cuda = false;
  std::optional<int64_t> positions;  ///< positions of this process; nothing: as many as the mesh needs
  int gpu = 0;                       ///< among those that are visible
  int processes = 1;                 ///< that have to be started, one for each GPU; 1: this one will do
};

/// Throws Error (kConfig) when `devices` is not right, does not fit the processes or names a GPU that is not
/// there; kNoDevice or kSystem when there is no CUDA.
Devices resolve_devices(const Config& config);

/// Whether `devices` asks for GPUs, be they there or not.
bool names_gpus(const Config& config);

/// The set that `run.instruction_set` chooses among those of this machine, the best one first: `auto` is AMX only where products
/// are in bfloat16, or calibrated. Throws Error (kConfig) with the place of the key when the machine lacks it.
InstructionSet chosen_instruction_set(const Config& config, const std::vector<InstructionSet>& available);

/// The backend that this process computes on: a parameter server on the processor. In run.mode=explain it is a
/// planned one (make_planned_device) if `hardware` is given or the GPU cannot be opened.
std::unique_ptr<Backend> make_backend(const Config& config);

/// What `mtf-train --list-devices` prints: the processor, and each GPU or why there is none.
std::string list_devices();

}  // namespace mtf
