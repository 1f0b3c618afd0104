// Checkpoints: directories of safetensors files with a manifest. They are published atomically and can be
// read on any mesh.
//
//   write_checkpoint("runs/mnist/checkpoints", manifest, {{"weights.safetensors", tensors}});
//   for (const SavedCheckpoint& saved : list_checkpoints("runs/mnist/checkpoints")) ...   // by step
//   CheckpointReader reader(saved.path);
//   reader.read("layer_1/kernel", begin, size, slice);   // any rectangle of the variable, across its blocks
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

/// A variable, or a rectangle of it, to be written. The caller owns `data`, which is row-major.
struct CheckpointTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;                 ///< shape of the whole variable
  std::vector<int64_t> begin;  ///< first index of the rectangle along each axis; empty: the whole variable
  std::vector<int64_t> size;
  std::span<const std::byte> data;
};

struct CheckpointFile {
  std::string name;  ///< such as "weights.safetensors"
  std::vector<CheckpointTensor> tensors;
};

/// Writes `directory`/step-N (N = manifest.step): writes and syncs all files in a temporary directory, the
/// manifest last, and then renames it. A reader sees the complete checkpoint or none, even after a crash. A
/// checkpoint of the same step is replaced. The function fills in `manifest.files` and `manifest.variables`.
/// Throws Error (kSystem) with the system's reason, and then leaves nothing behind. In the files, whole
/// tensors have their own names, rectangles NAME@BEGIN.
void write_checkpoint(const std::string& directory, Manifest manifest, std::span<const CheckpointFile> files);

struct SavedCheckpoint {
  int64_t step = 0;
  std::string path;
};

/// Returns the complete checkpoints in `directory`, by step; none if there is no such directory.
std::vector<SavedCheckpoint> list_checkpoints(const std::string& directory);
/// Removes what interrupted saves left in `directory`, and restores a checkpoint whose replacement was
/// interrupted. Throws Error (kSystem).
void remove_unfinished(const std::string& directory);
/// Renames a damaged checkpoint, so that it is no longer taken for a checkpoint, and returns its new path.
/// Throws Error (kSystem).
std::string set_checkpoint_aside(const SavedCheckpoint& saved);
/// Removes one checkpoint; after a crash in between it is either complete or not listed. Throws Error
/// (kSystem).
void remove_checkpoint(const SavedCheckpoint& saved);

/// Reads a checkpoint. The constructor checks the manifest, and the sizes and headers of all files. The data
/// of a block are checked against their hash before the first byte is returned. Errors are thrown as
/// DamagedCheckpoint, an Error (kCheckpoint) that names the file, the variable and what is wrong.
class CheckpointReader {
 public:
  explicit CheckpointReader(const std::string& directory);
  ~CheckpointReader();
  CheckpointReader(CheckpointReader&&) noexcept;

  const std::string& path() const;
  const Manifest& manifest() const;
  /// Returns the variable of this name, or nullptr.
  const CheckpointVariable* find(std::string_view name) const;
  /// Copies the elements begin .. begin + size of a variable to `to`, row-major. The variable must exist and
  /// contain the rectangle.
  void read(const std::string& name, std::span<const int64_t> begin, std::span<const int64_t> size,
            std::byte* to);
  /// Checks the data of all blocks.
  void verify();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace mtf
