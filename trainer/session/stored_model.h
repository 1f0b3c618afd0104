// Models that were trained before: what a checkpoint holds, and the model that it belongs to.
//
//   const StoredModel teacher = open_stored_model(distill.checkpoint, distill.config);
//   teacher.model->build(context, features);
#pragma once

#include <memory>
#include <string>

#include "engine/checkpoint/manifest.h"
#include "engine/config/types.h"
#include "engine/safetensors/safetensors.h"
#include "models/model.h"
#include "trainer/config/config.h"

namespace mtf {

/// Returns the path of the newest checkpoint of the run in directory `run`. Throws Error if there is none.
std::string latest_of(const std::string& run, const Mark& mark);

/// Returns the path of a safetensors file, of a checkpoint's directory, or of the newest checkpoint in a
/// run's directory. Throws Error if `path` is none of them.
std::string checkpoint_at(const config::Path& path);

/// Returns the checkpoint's manifest that mtf-convert stores in a safetensors file; an empty one for other
/// files.
Manifest manifest_of(const SafetensorsFile& file);
/// Returns the manifest of a checkpoint's directory or of a safetensors file.
Manifest manifest_at(const std::string& checkpoint);

/// Returns a text that differs for other weights: a hash of the checkpoint's manifest, which has hashes of all tensors, or of
/// the names, types, shapes and first 4 KiB of each tensor in a safetensors file.
std::string weights_fingerprint(const std::string& checkpoint);

/// Returns the directory of the run to which the checkpoint in directory `checkpoint` belongs; empty if there is none.
std::string run_of(const std::string& checkpoint);

/// Returns what the training data of a checkpoint have prepared (Source::preparation()): data.json of its run or, of a
/// safetensors file, what mtf-convert has kept of that; empty if there is none.
std::string preparation_at(const std::string& checkpoint);
/// True if evaluate.checkpoint or infer.checkpoint, whichever the mode reads, names weights by their paths, which may be
/// those of another run.
bool takes_weights_by_path(const Config& config);
/// Returns what the training data of the weights that evaluate.checkpoint or infer.checkpoint selects have prepared; empty if
/// that is not known. Throws Error: kConfig when that of several weights differs, and as checkpoint_at() does.
std::string preparation_of_weights(const Config& config);

/// The file of a run's configuration, and its key in a safetensors file's metadata.
inline constexpr const char* kConfigFile = "config.yaml";

struct StoredModel {
  std::string path;  ///< a checkpoint's directory, or a safetensors file
  Manifest manifest;
  std::unique_ptr<Model> model;
};

/// Returns the configuration beside the checkpoint at `checkpoint`: config.yaml of its run or, of a safetensors file, what
/// mtf-convert has kept of that; empty if there is none.
std::string config_at(const std::string& checkpoint);

/// Returns the model that `manifest`, of the checkpoint at `path`, says it was trained with, or else that of the configuration
/// beside it (an import has no other); null where neither says it. Throws Error when this version cannot make the model.
std::unique_ptr<Model> model_of(const Manifest& manifest, const std::string& path);

/// Opens the weights at `checkpoint` (see checkpoint_at) and makes their model, which is the section `model` of the
/// file `config`, or if that is empty what the checkpoint says. Throws Error (kConfig) when neither names a model.
StoredModel open_stored_model(const config::Path& checkpoint, const config::Path& config);

}  // namespace mtf
