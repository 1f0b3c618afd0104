// Feeds batches of examples to a program.
//
//   Prefetcher batches(BatchStream(source, training, part_of(program, hosting)));
//   feed_batch(executor, *source, *batches.next());
#pragma once

#include "data/loader.h"
#include "data/source.h"
#include "engine/core/hosted_mesh.h"
#include "engine/runtime/executor.h"

namespace mtf {

/// Returns the part of each batch that the positions of one process hold in `program`: of the rows, and of each
/// input the smallest box around their slices.
BatchPart part_of(const Program& program, Hosting hosting);

/// Feeds the features of `batch`, a batch of `source`, that are inputs of the executor's program.
void feed_batch(Executor& executor, const Source& source, const Batch& batch);

}  // namespace mtf
