// Checks that the weights of checkpoint.init mean in this run what they meant where they were trained: shapes do not tell
// whether ids are those of other tokens, or numbers those of other classes.
//
//   check_vocabulary_to_train(session, *step.graph, texts, diagnostics);
//   check_initial_vocabulary(session, *step.graph, diagnostics);
//   check_initial_classes(session, step, diagnostics);
#pragma once

#include <string>

#include "data/vocabulary/train_vocabulary.h"
#include "engine/base/error.h"
#include "trainer/session/session.h"

namespace mtf {

/// True for the variables that `include` and `exclude` select.
bool selects(const InitOptions& options, const std::string& variable);
/// True for variables of a model, which a fresh run may start from.
bool is_initialized(const Variable& variable);

/// Reports weights of tokens that come from a run none of whose vocabularies is one of this run, unless run.allow_change has
/// `data.vocabulary`, and warns where only some of its ids mean other tokens. `step` is the graph of the training step.
void check_initial_vocabulary(const Session& session, const Graph& step, Diagnostics& diagnostics);

/// The same before the run's vocabularies are trained on `texts`: they would be others.
void check_vocabulary_to_train(const Session& session, const Graph& step, const VocabularyTexts& texts,
                               Diagnostics& diagnostics);

/// Reports weights of classes that come from a run which numbers these differently, and warns where they have other names, or
/// where some weights of classes are left out. Weights of classes are those with the dimension of the classes, which layers
/// below may have too.
void check_initial_classes(const Session& session, const TrainStep& step, Diagnostics& diagnostics);

}  // namespace mtf
