// How much of what its devices can do a training run does: model-FLOPs utilization (Chowdhery et al. 2022,
// PaLM: Scaling language modeling with pathways, appendix B), and the memory that it takes.
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

/// FLOPs of all contractions of a training step, forward and backward, each done once: repeated work
/// and what `train.recompute` computes again do not count.
double model_flops(const Program& program);

/// FLOP/s of dense contractions that all processes' devices can do together: `run.peak_flops`, or as the
/// makers of the GPUs say; nothing: not known.
std::optional<double> peak_flops(const Session& session);
/// Of one device, by its name.
std::optional<double> peak_flops_of(std::string_view device, const Precision& precision);

/// Bytes that this process has taken of its device's memory; on the processor the most that it had resident.
int64_t memory_in_use(const Backend& backend);

}  // namespace mtf
