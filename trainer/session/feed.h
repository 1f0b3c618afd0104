// Batches of examples on their way into a program.
//
//   Prefetcher batches(BatchStream(source, training, rows_of(program, hosting)));
//   feed_batch(executor, *source, *batches.next());
#pragma once

#include "data/loader.h"
#include "data/source.h"
#include "engine/core/hosted_mesh.h"
#include "engine/runtime/executor.h"

namespace mtf {

/// The rows of each batch of `program` that the positions of one process read.
BatchRows rows_of(const Program& program, Hosting hosting);

/// Copies the features that `program` has as inputs from `batch`, a batch of `source`.
void feed_batch(Executor& executor, const Source& source, const Batch& batch);

}  // namespace mtf
