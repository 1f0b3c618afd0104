// A checkpoint on its way to the disk, written by one process or by several in one directory that all see:
// the first one begins and finishes it, and in between each writes files of its own.
//
//   CheckpointWriter writer("runs/mnist/checkpoints", manifest.step);
//   writer.begin();                                        // the first process; then the others go on
//   const WrittenPart part = writer.write(files);       // each
//   writer.finish(manifest, parts);                        // the first one, with the parts of all
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"

namespace mtf {

class File;

/// What one process has written of a checkpoint.
struct WrittenPart {
  std::string writer;  ///< what messages call the process
  std::vector<CheckpointFileInfo> files;
  std::vector<CheckpointVariable> variables;  ///< with the blocks that are in these files
};

std::string to_json(const WrittenPart& part);
/// Reads what to_json() wrote.
WrittenPart parse_part(const std::string& text);

/// Each call throws Error (kSystem) with the system's reason. What was begun and not finished goes away with
/// the object that began it.
class CheckpointWriter {
 public:
  CheckpointWriter(const std::string& directory, int64_t step);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Makes the directory that the files are written into, under its temporary name, and `directory`; those
  /// above it must be there.
  void begin();
  /// Writes files, and returns when they are on the disk.
  WrittenPart write(std::span<const CheckpointFile> files);
  /// Writes the manifest, with the files and variables of all parts, and gives the checkpoint its name. A
  /// file that is not in this directory is an error that names its writer.
  void finish(Manifest manifest, std::span<const WrittenPart> parts);

 private:
  void check(int error) const;
  template <class Fill>
  void write_synced(const std::string& name, const Fill& fill);
  std::string write_hashed(const File& file, std::span<const std::byte> bytes);
  void write_file(const CheckpointFile& file, WrittenPart& part);
  void check_files(const WrittenPart& part) const;
  void write_manifest(const Manifest& manifest);
  int take_name(bool replaces, int fault);
  void publish();

  const std::string directory_, path_, temporary_, replaced_;
  bool begun_ = false;     ///< by this object
  int64_t files_ = 0;      ///< written so far
  size_t not_synced_ = 0;  ///< bytes
};

}  // namespace mtf
