// run.mode=infer: a text for each line of infer.input, in its order, with the weights that infer.checkpoint
// chooses.
#pragma once

#include "trainer/session/session.h"

namespace mtf {

/// Lines that are there are worked on together, the longest first; standard input is read as it comes. The
/// results go to infer.output, a line to standard error says how fast it was.
void infer(Session& session, Diagnostics& diagnostics);

}  // namespace mtf
