// A model's weights in memory, and functions that read and write them in the formats of this program.
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
  std::string file = "weights.safetensors";  ///< the checkpoint's file that holds the weight
};

struct ModelWeights {
  std::string config;                ///< text of config.yaml; empty if unknown
  std::string directory = {};        ///< run's directory, which has trained vocabularies; may be empty
  std::string preparation = {};      ///< what the training data have prepared (data.json); empty: nothing
  Manifest manifest = {};            ///< without files and variables
  std::vector<ModelWeight> weights;  ///< in the order of the file
};

/// Selects a checkpoint of a run and the part of it that is read.
struct CheckpointSelection {
  std::optional<int64_t> step = {};  ///< nullopt: the newest
  bool all = false;                  ///< includes slots, running means and the state of the training
  bool raw = false;                  ///< false: weights take the values of their running means
};

/// Reads the directory of a run or a checkpoint. Throws Error (kCheckpoint).
ModelWeights read_checkpoint_weights(const std::string& path, const CheckpointSelection& part);

/// Reads a safetensors file. `config` is the path of a configuration that replaces the one in its metadata,
/// or empty. Variables without names of dimensions get those of the configuration's model. Throws Error
/// (kCheckpoint, kConfig) when model and file do not fit together.
ModelWeights read_weights_file(const std::string& path, const std::string& config);

/// Removes slots, running means and the state of the training, as without CheckpointSelection::all: weights take the values of
/// their running means.
void keep_weights(ModelWeights& model);

/// Writes into an existing directory: config.yaml, data.json, checkpoints/step-N, and copies of vocabularies that the
/// run has trained. Throws Error (kSystem).
void write_model_directory(const ModelWeights& model, const std::string& directory);

/// Writes a safetensors file atomically. Throws Error (kSystem).
void write_weights_file(const ModelWeights& model, const std::string& path);

}  // namespace mtf
