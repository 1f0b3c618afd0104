// The numbers of microbatches that `train.microbatches: auto` chooses from.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/spmd/partition/partition.h"

namespace mtf {

/// Returns the numbers of microbatches that divide the batch and leave each microbatch divisible by the number of parts
/// into which the layout splits it, in ascending order. With stages of a pipeline, no more than 16 for each stage; in several
/// rounds multiples of the stages, if there are any.
std::vector<int64_t> microbatch_counts(const Layouts& layouts, int64_t batch_size);

}  // namespace mtf
