// Imports and exports ResNet models in Hugging Face format: a directory with config.json, model.safetensors (or several files,
// with model.safetensors.index.json) and preprocessor_config.json.
//
//   const HuggingFaceImport resnet = import_resnet("resnet-50", {"/home/me/models/resnet"});
//   export_resnet(read_checkpoint_weights("runs/resnet", {}), "runs/resnet", directory);
#pragma once

#include <string>
#include <vector>

#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// Imports the model in directory `from`: a classifier, or an encoder alone. Throws Error (kCheckpoint), which names file and
/// tensor.
HuggingFaceImport import_resnet(const std::string& from, const ImportTarget& target);

/// Writes a model into an existing directory and returns readable notes. `from` names the model in messages. Throws Error:
/// kConfig when the model is no ResNet, kCheckpoint when its weights do not fit.
std::vector<std::string> export_resnet(const ModelWeights& model, const std::string& from,
                                       const std::string& directory);

}  // namespace mtf
