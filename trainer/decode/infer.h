// Runs run.mode=infer with models that write texts: a text for each line or example of infer.input, in the same order,
// with the weights that infer.checkpoint selects.
#pragma once

#include "trainer/session/session.h"

namespace mtf {

/// Lines that are available are decoded together, the longest first; standard input is decoded as it arrives.
/// The results go to infer.output, and a line with the speed to standard error.
void infer(Session& session, Diagnostics& diagnostics);

}  // namespace mtf
