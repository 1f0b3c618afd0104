// Runs run.mode=bench: trains for some steps, and prints what a step costs: its time, and the share of each operation and
// each layer, with the FLOPs and bytes that a core does in a second. Nothing is written into run.model_dir but a
// vocabulary that must be trained and, with run.tune on a GPU, the algorithms that were chosen.
#pragma once

#include "trainer/session/session.h"

namespace mtf {

/// Prints to standard output, in process 0 only. Throws Error as train() does.
void bench(Session& session, Diagnostics& diagnostics);

}  // namespace mtf
