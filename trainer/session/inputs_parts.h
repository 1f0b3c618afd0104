// Language models on texts of an inputs part (the prompt) and a targets part, each with the end of sequence behind it: which
// sources make such texts, what a model needs of them, and how prompts that are given to it end.
#pragma once

#include "engine/base/error.h"
#include "trainer/session/session.h"

namespace mtf {

/// Reports sources of texts, of data.train and evaluate.datasets, whose rows the model would read as what they are not:
/// texts without an inputs part where it looks for one, and hidden tokens where it predicts whole rows; then there is no
/// model. Does nothing in modes that read no such source.
void check_text_rows(Session& session, Diagnostics& diagnostics);

/// True if an end of sequence stands behind a prompt: where the model always expects one, and for language models where it
/// stands there in all texts of data.train.
bool ends_prompts(const Session& session);
/// Prints a warning where only some sources of data.train have it there.
void warn_of_prompts(const Session& session);

}  // namespace mtf
