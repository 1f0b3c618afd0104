// Runs run.mode=infer with models that write no texts: predicts the class, the numbers, the tags or the answer for each
// example of infer.input.
#pragma once

#include "data/source_options.h"
#include "trainer/session/session.h"

namespace mtf {

/// The source of data.train, of several the first; nullptr where there is none.
const SourceChoice* training_source(const Config& config);

/// Examples of a source, or lines as they arrive; a file that data.train could read is read as data.train is. The
/// predictions go to infer.output, and a line with the speed to standard error. Throws Error (kConfig) for a model without
/// predictions.
void predict(Session& session, Diagnostics& diagnostics);

}  // namespace mtf
