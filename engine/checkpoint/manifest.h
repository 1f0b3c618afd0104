// The manifest.json of a checkpoint: it lists what was saved, the place of each block, and checksums of
// everything.
//
//   Manifest manifest = read_manifest("runs/mnist/checkpoints/step-00001000");
//   manifest.step, manifest.variables[0].blocks[0].file
//
// The text ends with the hash of everything before it, so that a damaged manifest is always noticed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/core/dtype.h"
#include "engine/core/shape.h"

namespace mtf {

/// A part of a variable in a file: its elements begin .. begin + size along each axis, row-major.
struct CheckpointBlock {
  std::string file;    ///< name in the checkpoint's directory
  int64_t offset = 0;  ///< offset of the data in the file, in bytes
  int64_t bytes = 0;
  std::vector<int64_t> begin;
  std::vector<int64_t> size;
  std::string xxh128;  ///< hash of the data
};

struct CheckpointVariable {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;                          ///< global shape in the declared order
  std::vector<CheckpointBlock> blocks;  ///< hold each element of the variable exactly once
};

/// A file of the checkpoint. Its header and each block have their own hashes.
struct CheckpointFileInfo {
  std::string name;
  int64_t bytes = 0;
  int64_t header_bytes = 0;  ///< size of everything before the first tensor
  std::string header_xxh128;
};

/// Thrown if a checkpoint differs from what was saved.
class DamagedCheckpoint : public Error {
 public:
  using Error::Error;
};

struct Manifest {
  static constexpr int64_t kFormat = 1;
  static constexpr const char* kFile = "manifest.json";

  int64_t step = 0;  ///< number of completed steps
  uint64_t seed = 0;
  std::string config_hash;  ///< hash of the resolved configuration
  std::string config;       ///< that configuration as YAML; empty if an older program saved the checkpoint
  std::map<std::string, int64_t> next_rows;  ///< next row of the stream of each data set
  std::string instruction_set;
  std::string mesh;                       ///< such as "rows=2 cols=4", "one position"
  std::map<std::string, double> state;    ///< other numbers that the trainer needs to resume; finite
  std::map<std::string, double> metrics;  ///< "DATASET/METRIC" of an evaluation at this step; finite
  std::map<std::string, std::string> vocabularies;  ///< fingerprint for each kind of ids; may be empty
  std::vector<CheckpointFileInfo> files;
  std::vector<CheckpointVariable> variables;
};

/// Returns "step-00001000".
std::string checkpoint_name(int64_t step);

std::string to_json(const Manifest& manifest);
/// Parses a manifest. Checks its format and hash, and that the blocks are consistent (problem_of_blocks()).
/// Throws DamagedCheckpoint that names `path`, the variable if it concerns one, and what is wrong.
Manifest parse_manifest(const std::string& text, const std::string& path);
/// Reads and parses `directory`/manifest.json. Throws DamagedCheckpoint also if there is none.
Manifest read_manifest(const std::string& directory);

}  // namespace mtf
