// Writes a checkpoint from one process or from several that share a directory: the first process begins and
// finishes it; in between each process writes its own files.
//
//   CheckpointWriter writer("runs/mnist/checkpoints", manifest.step);
//   writer.begin();                                   // in the first process, before the others continue
//   const WrittenPart part = writer.write(files);     // in each process
//   writer.finish(manifest, parts);                   // in the first process, with the parts of all
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"

namespace mtf {

class File;

/// The part of a checkpoint that one process has written.
struct WrittenPart {
  std::string writer;  ///< name of the process in messages
  std::vector<CheckpointFileInfo> files;
  std::vector<CheckpointVariable> variables;  ///< only the blocks that are in these files
};

std::string to_json(const WrittenPart& part);
/// Parses the text that to_json() returned.
WrittenPart parse_part(const std::string& text);

/// Writes one checkpoint. Each function throws Error (kSystem) with the system's reason. The destructor of
/// the object that began a checkpoint removes it if it is not finished.
class CheckpointWriter {
 public:
  CheckpointWriter(const std::string& directory, int64_t step);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Creates the directory for the files under its temporary name, and `directory` if it does not exist; the
  /// parent of `directory` must exist.
  void begin();
  /// Writes files, and returns when they are on the disk.
  WrittenPart write(std::span<const CheckpointFile> files);
  /// Writes the manifest with the files and variables of all parts, and gives the checkpoint its name. A file
  /// that is missing in the directory is an error that names its writer.
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
  bool begun_ = false;     ///< true if this object began the checkpoint
  int64_t files_ = 0;      ///< number of files written so far
  size_t not_synced_ = 0;  ///< number of bytes since the last start_sync()
};

}  // namespace mtf
