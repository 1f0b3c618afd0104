// Imports and exports ConvNeXt models in Hugging Face format: a directory with config.json, model.safetensors (or several files,
// with model.safetensors.index.json) and preprocessor_config.json.
//
//   const HuggingFaceImport network = import_convnext("convnext-tiny-224", {"/home/me/models/convnext"});
//   export_convnext(read_checkpoint_weights("runs/convnext", {}), "runs/convnext", directory);
#pragma once

#include <string>
#include <vector>

#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// Imports the model in directory `from`: a classifier, or an encoder alone. Throws Error (kCheckpoint), which names file and
/// tensor.
HuggingFaceImport import_convnext(const std::string& from, const ImportTarget& target);

/// Writes a model into an existing directory and returns readable notes. `from` names the model in messages. Throws Error:
/// kConfig when the model is no ConvNeXt, kCheckpoint when its weights do not fit.
std::vector<std::string> export_convnext(const ModelWeights& model, const std::string& from,
                                         const std::string& directory);

}  // namespace mtf
