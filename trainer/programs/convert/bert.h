// Imports and exports BERT models, and encoders like it (RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT, ModernBERT), in
// Hugging Face format: a directory with config.json, model.safetensors (or several files, with model.safetensors.index.json)
// and vocab.txt or tokenizer.json. Kernels of dense layers are stored transposed.
//
//   const HuggingFaceImport bert = import_bert("bert-base-uncased", {"/home/me/models/bert"});
//   export_bert(read_checkpoint_weights("runs/bert", {}), "runs/bert", directory);
#pragma once

#include <string>
#include <vector>

#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// Imports the model in directory `from`: a model of pretraining, a classifier of texts or tokens, one that predicts numbers
/// or answers questions, or an encoder alone. Throws Error (kCheckpoint), which names file and tensor.
HuggingFaceImport import_bert(const std::string& from, const ImportTarget& target);

/// Writes a model into an existing directory, as the kind of encoder that its layers are, and returns readable notes. `from`
/// names the model in messages. Throws Error: kConfig when the model is no such encoder, kCheckpoint when its weights do not
/// fit.
std::vector<std::string> export_bert(const ModelWeights& model, const std::string& from,
                                     const std::string& directory);

}  // namespace mtf
