// manifest.json of a checkpoint: what was saved, where each block of it lies, and checksums of everything.
//
//   Manifest manifest = read_manifest("runs/mnist/checkpoints/step-00001000");
//   manifest.step, manifest.variables[0].blocks[0].file
//
// The text ends with the hash of what stands before it, so that a damaged manifest is never believed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/core/dtype.h"
#include "engine/core/shape.h"

namespace mtf {

/// A part of a variable in a file: elements begin .. begin + size along each axis, row-major.
struct CheckpointBlock {
  std::string file;    ///< name within the directory
  int64_t offset = 0;  ///< of the data in the file, in bytes
  int64_t bytes = 0;
  std::vector<int64_t> begin;
  std::vector<int64_t> size;
  std::string xxh128;  ///< of the data
};

struct CheckpointVariable {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;                          ///< global, in declared order
  std::vector<CheckpointBlock> blocks;  ///< cover the variable, each element once
};

/// A file of the checkpoint. Its header is hashed by itself, the data by block.
struct CheckpointFileInfo {
  std::string name;
  int64_t bytes = 0;
  int64_t header_bytes = 0;  ///< everything before the first tensor
  std::string header_xxh128;
};

/// What is read of a checkpoint is not what was saved.
class DamagedCheckpoint : public Error {
 public:
  using Error::Error;
};

struct Manifest {
  static constexpr int64_t kFormat = 1;
  static constexpr const char* kFile = "manifest.json";

  int64_t step = 0;  ///< steps done
  uint64_t seed = 0;
  std::string config_hash;  ///< of the resolved configuration
  std::string config;       ///< that configuration, as YAML; empty: an older program has saved the checkpoint
  std::map<std::string, int64_t> next_rows;  ///< by data set: the row of its stream that comes next
  std::string instruction_set;
  std::string mesh;                       ///< "rows=2 cols=4", "one position"
  std::map<std::string, double> state;    ///< further numbers that the trainer needs to go on; finite
  std::map<std::string, double> metrics;  ///< "DATASET/METRIC" of an evaluation at this step; finite
  std::map<std::string, std::string> vocabularies;  ///< fingerprints, by what ids are of; may be empty
  std::vector<CheckpointFileInfo> files;
  std::vector<CheckpointVariable> variables;
};

/// "step-00001000".
std::string checkpoint_name(int64_t step);

std::string to_json(const Manifest& manifest);
/// Checks format, hash, and that every block lies in its variable and file and the blocks cover the variable.
/// Throws DamagedCheckpoint that names `path`, the variable where it is one's, and what is wrong.
Manifest parse_manifest(const std::string& text, const std::string& path);
/// Reads and parses `directory`/manifest.json. Throws DamagedCheckpoint where there is none, too.
Manifest read_manifest(const std::string& directory);

}  // namespace mtf
