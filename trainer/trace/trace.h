// Runs run.mode=trace: computes the model and the optimizer on one batch from a file, and writes the results
// to a file, for comparison with other programs and between layouts.
//
// trace.input is a safetensors file with input/FEATURE [batch, ...], in place of the files of data.train, and
// weight/VARIABLE for variables that do not start from their initial values. trace.output contains loss;
// output/logits (a regression's also as output/TARGET); grad/VARIABLE; tensor/NAME for patterns in
// trace.tensors; with trace.steps > 0 also trajectory/loss [steps+1], the loss before each step and after the
// last, and final_weight/VARIABLE.
#pragma once

#include "trainer/session/session.h"

namespace mtf {

void trace(Session& session, Diagnostics& diagnostics);

}  // namespace mtf
