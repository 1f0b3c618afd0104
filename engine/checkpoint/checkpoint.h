// Checkpoints: directories of safetensors files and a manifest, written whole or not at all, read by any
// mesh.
//
//   write_checkpoint("runs/mnist/checkpoints", manifest, {{"weights.safetensors", tensors}});
//   for (const SavedCheckpoint& saved : list_checkpoints("runs/mnist/checkpoints")) ...   // by step
//   CheckpointReader reader(saved.path);
//   reader.read("layer_1/kernel", begin, size, slice);   // any rectangle of the variable, from whatever
//   blocks hold it
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/manifest.h"

namespace mtf {

/// A variable, or one rectangle of it, to be written. `data` is row-major and belongs to the caller.
struct CheckpointTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;                 ///< of the whole variable
  std::vector<int64_t> begin;  ///< of the rectangle along each axis; empty: the whole variable
  std::vector<int64_t> size;
  std::span<const std::byte> data;
};

struct CheckpointFile {
  std::string name;  ///< "weights.safetensors"
  std::vector<CheckpointTensor> tensors;
};

/// Writes `directory`/step-N (N = manifest.step): all files under a temporary name, synced, the manifest
/// last, then renamed; a reader sees the whole checkpoint or none, also after a crash. A checkpoint of the
/// same step is replaced. `manifest.files` and `manifest.variables` are filled in here. Throws Error
/// (kSystem) with the system's reason; nothing is left behind then. Tensors that are whole lie in the files
/// under their own names, rectangles under NAME@BEGIN.
void write_checkpoint(const std::string& directory, Manifest manifest, std::span<const CheckpointFile> files);

struct SavedCheckpoint {
  int64_t step = 0;
  std::string path;
};

/// The complete checkpoints in `directory`, by step; none when there is no such directory.
std::vector<SavedCheckpoint> list_checkpoints(const std::string& directory);
/// Removes what interrupted saves left in `directory`. Throws Error (kSystem).
void remove_unfinished(const std::string& directory);
/// Gives a damaged checkpoint a name under which nothing takes it for one, and returns its new path. Throws
/// Error (kSystem).
std::string set_checkpoint_aside(const SavedCheckpoint& saved);
/// Removes one checkpoint so that a crash in between leaves it whole or invisible. Throws Error (kSystem).
void remove_checkpoint(const SavedCheckpoint& saved);

/// Opens a checkpoint. The constructor checks the manifest, the sizes and the headers of all files; the data
/// of a block are checked against their hash before the first byte of it is handed out. Throws
/// DamagedCheckpoint, an Error (kCheckpoint) that names the file, the variable and what is wrong.
class CheckpointReader {
 public:
  explicit CheckpointReader(const std::string& directory);
  ~CheckpointReader();
  CheckpointReader(CheckpointReader&&) noexcept;

  const std::string& path() const;
  const Manifest& manifest() const;
  /// nullptr when there is none.
  const CheckpointVariable* find(std::string_view name) const;
  /// Copies the elements begin .. begin + size of a variable to `to`, row-major. The variable must exist and
  /// the rectangle lie within it.
  void read(const std::string& name, std::span<const int64_t> begin, std::span<const int64_t> size,
            std::byte* to);
  /// Checks the data of every block.
  void verify();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace mtf
