// Opens the data of a session: vocabularies, data.train and what is held out of it, sources for evaluation and prediction.
#pragma once

#include <memory>
#include <string>

#include "data/augment/augmented_source.h"
#include "engine/base/error.h"
#include "engine/checkpoint/manifest.h"
#include "trainer/session/session.h"

namespace mtf {

/// Calls `build()` and adds its configuration errors to `diagnostics`.
template <class Build>
void collect_errors(const Build& build, Diagnostics& diagnostics) {
  try {
    build();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kConfig) throw;
    diagnostics.add(error);
  }
}

/// Locks run.model_dir in the first process until the session ends, if it is not locked yet. Does nothing where the directory
/// is no place for a run, which the plan of the training reports. Throws Error (kSystem) as ModelDirLock does.
void hold_directory(Session& session);

/// Opens data.train and the vocabularies, as open_session() says.
void open_training_data(Session& session, const BeforeTexts& before_texts, Diagnostics& diagnostics);

/// Returns data.train without examples, with the features that the configuration declares, for modes that
/// read no examples and for runs whose vocabulary is still to be trained. Returns null if only the files
/// determine the features. Throws Error (kConfig) if an augmentation does not fit.
std::shared_ptr<const Source> declared_source(const Config& config, const TrainSourceOptions& options);

/// Opens a source for evaluation, which stands under `key` in the configuration; modes that read no examples get only its
/// features, as in open_session().
std::shared_ptr<const Source> open_source(const Session& session, const SourceChoice& options,
                                          const std::string& key, Diagnostics& diagnostics);

/// What sources are opened with whose examples are given to a trained model: they need no labels (infer.input).
/// `mark`: the place of the source in the configuration.
SourceContext prediction_context(const Session& session, const Mark& mark);

/// Throws Error (kConfig) if a feature of the session's examples, those of the option `key`, is not that of data.train, as far
/// as the configuration of a run declares it.
void check_trained_features(const Session& session, const std::string& key);

/// Calls `load`, which reads trained weights. Where these are sound but do not fit a model for examples with other features
/// than data.train, the error is that of check_trained_features().
template <class Load>
void load_for_examples(const Session& session, const std::string& key, const Load& load) {
  try {
    load();
  } catch (const DamagedCheckpoint&) {
    throw;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kCheckpoint) check_trained_features(session, key);
    throw;
  }
}

/// How the images of data.train are augmented, or those of data that are evaluated.
AugmentSettings augment_settings(const Config& config, AugmentFor purpose);

}  // namespace mtf
