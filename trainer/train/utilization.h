// Model-FLOPs utilization (MFU) of a training run (Chowdhery et al. 2022, PaLM: Scaling language modeling
// with pathways, appendix B), and the memory that it uses.
//
//   const double flops = model_flops(program);
//   if (const auto peak = peak_flops(session)) mfu = flops / step_seconds / *peak;
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/backend/backend.h"
#include "engine/spmd/program.h"
#include "trainer/session/session.h"

namespace mtf {

/// Returns the FLOPs of all contractions of a training step, forward and backward, each counted once:
/// repeated work and the recomputation of `train.recompute` do not count.
double model_flops(const Program& program);

/// Returns the peak FLOP/s of dense contractions of all processes' devices together: by `run.peak_flops`, or
/// by the GPUs' data sheets; nullopt if unknown.
std::optional<double> peak_flops(const Session& session);
/// Returns the peak FLOP/s of one device, by its name.
std::optional<double> peak_flops_of(std::string_view device, const Precision& precision);

/// Returns the bytes of device memory that this process uses; on the CPU its peak resident memory.
int64_t memory_in_use(const Backend& backend);

}  // namespace mtf
