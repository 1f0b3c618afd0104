// The order in which the stages of a pipeline pass microbatches through their chunks.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/spmd/pipeline.h"

namespace mtf {

/// The forward or the backward pass of a microbatch through a chunk, with the moments at which it begins and ends.
struct PipelineTask {
  int chunk = 0;
  bool is_backward = false;
  int64_t microbatch = 0;
  double begin = 0, end = 0;
};

/// The moments that a chunk takes for a microbatch: forward, backward.
using ChunkMoments = std::array<double, 2>;

/// All tasks in an order in which each one comes after those that it depends on; the tasks of a stage, and those of a chunk
/// by microbatch, in the order in which they run. `stages`: PlacedChunks::stages. `moments`: by chunk.
///
/// Where each stage has the same number R of chunks, in turn, and the number of stages S divides that of microbatches (or R
/// is 1), the orders are GPipe's, 1F1B and interleaved 1F1B (Narayanan et al. 2021): with a backward pass twice as long as
/// a forward pass, a stage waits for the part (S-1) / (RM+S-1) of the time of M microbatches. Elsewhere the next task is
/// the one that can begin first, backward ones before forward ones.
std::vector<PipelineTask> pipeline_order(const std::vector<int64_t>& stages, int64_t microbatches,
                                         PipelineSchedule schedule, const std::vector<ChunkMoments>& moments);

/// The part of the time of a loop in which a stage waits for others, the mean over the stages, if all chunks take equally
/// long and backward passes twice as long as forward passes.
double pipeline_bubble(const std::vector<int64_t>& stages, int64_t microbatches, PipelineSchedule schedule);

}  // namespace mtf
