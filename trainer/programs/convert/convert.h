// Weights from one format into another: what mtf-convert does.
//
//   ConvertOptions options{.from = "t5-small", .to = "models/t5-small"};
//   for (const std::string& line : convert(options)) ...      // what was done, for a person
//
//   model         directory of a run: config.yaml and checkpoints/step-N
//   safetensors   one file of variables under their own names, with the configuration in its metadata
//   hf-t5         directory in Hugging Face form: config.json, model.safetensors (t5.h)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/schema.h"

namespace mtf {

enum class WeightFormat { kModel, kSafetensors, kHuggingFaceT5 };
inline config::EnumNames enum_names(WeightFormat) {
  return {{"model", WeightFormat::kModel},
          {"safetensors", WeightFormat::kSafetensors},
          {"hf-t5", WeightFormat::kHuggingFaceT5}};
}

struct ConvertOptions {
  std::string from, to;
  std::optional<WeightFormat> format = {};  ///< of `to`; nothing: guessed
  std::optional<int64_t> step = {};         ///< of the checkpoint; nothing: the newest
  bool all = false;                         ///< the state of the training too, so that it can go on
  bool raw = false;                         ///< not the running means of the weights where there are some
  bool force = false;                       ///< what is there already is replaced
  std::string config = {};                  ///< configuration of a safetensors file that has none
};

/// Lines for a person. Throws Error: kUsage for what contradicts itself or a file, otherwise of the files.
std::vector<std::string> convert(const ConvertOptions& options);

}  // namespace mtf
