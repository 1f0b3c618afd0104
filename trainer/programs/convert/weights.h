// A model's weights between two formats, in memory; reading and writing of the formats of this program.
//
//   const ModelWeights model = read_checkpoint_weights("runs/ende", {});
//   write_weights_file(model, "ende.safetensors");
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/manifest.h"
#include "engine/runtime/host_tensor.h"

namespace mtf {

struct ModelWeight {
  std::string name;
  HostTensor value;
  std::string file = "weights.safetensors";  ///< of a checkpoint in which it belongs
};

struct ModelWeights {
  std::string config;                ///< text of config.yaml; empty: unknown
  std::string directory = {};        ///< of the run, where trained vocabularies lie; empty: there is none
  Manifest manifest = {};            ///< without files and variables
  std::vector<ModelWeight> weights;  ///< in the order of their file
};

/// What of a checkpoint is read.
struct CheckpointSelection {
  std::optional<int64_t> step = {};  ///< nothing: the newest
  bool all = false;                  ///< slots, running means and the place in the training data too
  bool raw = false;                  ///< otherwise weights have the values of their running means
};

/// From the directory of a run or a checkpoint. Throws Error (kCheckpoint).
ModelWeights read_checkpoint_weights(const std::string& path, const CheckpointSelection& part);

/// From a safetensors file; `config` is the path of a configuration that takes the place of the one in its
/// metadata, or empty. Variables without names of dimensions get those of the configuration's model. Throws
/// Error (kCheckpoint, kConfig) when model and file do not fit together.
ModelWeights read_weights_file(const std::string& path, const std::string& config);

/// Fills a directory that exists: config.yaml, checkpoints/step-N, and copies of vocabularies that the run
/// has trained. Throws Error (kSystem).
void write_model_directory(const ModelWeights& model, const std::string& directory);

/// Writes one file; a reader sees the old one or the whole new one. Throws Error (kSystem).
void write_weights_file(const ModelWeights& model, const std::string& path);

}  // namespace mtf
