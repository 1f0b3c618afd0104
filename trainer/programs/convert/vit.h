// Imports and exports ViT and DINOv2 models in Hugging Face format: a directory with config.json, model.safetensors (or several files,
// with model.safetensors.index.json) and preprocessor_config.json.
//
//   const HuggingFaceImport vit = import_vit("vit-base-patch16-224", {"/home/me/models/vit"});
//   export_vit(read_checkpoint_weights("runs/vit", {}), "runs/vit", directory);
#pragma once

#include <string>
#include <vector>

#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// Imports the model in directory `from`: a classifier, or an encoder alone, with a pooler or without. Where images get another
/// size than the positions are for, these are interpolated, which a note says. Throws Error (kCheckpoint), which names file and
/// tensor.
HuggingFaceImport import_vit(const std::string& from, const ImportTarget& target);
HuggingFaceImport import_dinov2(const std::string& from, const ImportTarget& target);

/// Writes a model into an existing directory and returns readable notes. `from` names the model in messages. Throws Error:
/// kConfig when the model is another one, kCheckpoint when its weights do not fit.
std::vector<std::string> export_vit(const ModelWeights& model, const std::string& from,
                                    const std::string& directory);
std::vector<std::string> export_dinov2(const ModelWeights& model, const std::string& from,
                                       const std::string& directory);

}  // namespace mtf
