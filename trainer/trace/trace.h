// run.mode=trace: one batch from a file through the model and the optimizer, and what comes out into a file,
// for comparison with other programs and between layouts.
//
// trace.input (safetensors): input/FEATURE [batch, ...], which takes the place of the files of data.train;
// weight/VARIABLE where it should not start from its initial value. trace.output: loss; output/logits (a
// regression's also as output/TARGET); grad/VARIABLE; tensor/NAME for patterns in trace.tensors; with
// trace.steps > 0 trajectory/loss [steps+1], the loss before each step and after the last, and
// final_weight/VARIABLE.
#pragma once

#include "trainer/session/session.h"

namespace mtf {

void trace(Session& session, Diagnostics& diagnostics);

}  // namespace mtf
