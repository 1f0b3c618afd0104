// Converts weights from one format to another, for mtf-convert.
//
//   ConvertOptions options{.from = "t5-small", .to = "models/t5-small"};
//   for (const std::string& line : convert(options)) ...      // readable lines on what was done
//
//   model         directory of a run: config.yaml and checkpoints/step-N
//   safetensors   one file of variables under their own names, with the configuration in its metadata
//   hf-t5         directory in Hugging Face format: config.json, model.safetensors (t5.h)
//   hf-bert       likewise, of BERT and the encoders that are built like it (bert.h)
//   hf-marian     likewise, of Marian (bart.h)
//   hf-bart       likewise, of BART, mBART, M2M100 and NLLB (bart.h)
//   hf-lm         likewise, of decoder-only language models (causal_lm.h)
//   hf-vit        likewise (vit.h)
//   hf-dinov2     likewise (vit.h)
//   hf-resnet     likewise (resnet.h)
//   hf-convnext   likewise (convnext.h)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/schema.h"

namespace mtf {

enum class WeightFormat {
  kModel,
  kSafetensors,
  kHuggingFaceT5,
  kHuggingFaceBert,
  kHuggingFaceMarian,
  kHuggingFaceBart,
  kHuggingFaceLm,
  kHuggingFaceVit,
  kHuggingFaceDinov2,
  kHuggingFaceResNet,
  kHuggingFaceConvNext
};
inline config::EnumNames enum_names(WeightFormat) {
  return {{"model", WeightFormat::kModel},
          {"safetensors", WeightFormat::kSafetensors},
          {"hf-t5", WeightFormat::kHuggingFaceT5},
          {"hf-bert", WeightFormat::kHuggingFaceBert},
          {"hf-marian", WeightFormat::kHuggingFaceMarian},
          {"hf-bart", WeightFormat::kHuggingFaceBart},
          {"hf-lm", WeightFormat::kHuggingFaceLm},
          {"hf-vit", WeightFormat::kHuggingFaceVit},
          {"hf-dinov2", WeightFormat::kHuggingFaceDinov2},
          {"hf-resnet", WeightFormat::kHuggingFaceResNet},
          {"hf-convnext", WeightFormat::kHuggingFaceConvNext}};
}

struct ConvertOptions {
  std::string from, to;
  std::optional<WeightFormat> format = {};  ///< format of `to`; nullopt: guessed from `from` and `to`
  std::optional<int64_t> step = {};         ///< step of the checkpoint; nullopt: the newest
  bool all = false;                         ///< includes the state of the training, so that it can resume
  bool raw = false;                         ///< takes the weights and not their running means
  bool force = false;                       ///< replaces an existing file or directory
  std::string config = {};                  ///< path of the configuration of a safetensors file
};

/// Converts and returns readable lines on what was done. Throws Error: kUsage for options that contradict
/// each other or the files, and the errors of the files.
std::vector<std::string> convert(const ConvertOptions& options);

}  // namespace mtf
