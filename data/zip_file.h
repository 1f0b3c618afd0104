// Reads the members of a ZIP archive, such as an NPZ file: stored ones where they lie in the mapped file, deflated ones
// into memory.
//
//   const ZipFile archive("data.npz", "an NPZ file");
//   const ZipContent content = archive.read(*archive.find("x_train.npy"), largest);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/file.h"

namespace mtf {

struct ZipMember {
  std::string name;
  int64_t header = 0;                ///< offset of its local header
  int64_t compressed = 0, size = 0;  ///< bytes
  uint32_t checksum = 0;             ///< CRC-32
  uint16_t method = 0, flags = 0;
};

struct ZipContent {
  std::shared_ptr<const void> owner;  ///< keeps `bytes` valid
  std::span<const std::byte> bytes;
  bool in_memory = false;  ///< false: in the mapped file
};

class ZipFile {
 public:
  /// Maps the file and reads its directory. `content` says in messages what the file should be. Throws Error (kData).
  ZipFile(const std::string& path, std::string content);

  const std::string& path() const { return path_; }
  const std::vector<ZipMember>& members() const { return members_; }
  /// Returns the member of this name, or nullptr.
  const ZipMember* find(std::string_view name) const;
  /// Returns the content of a member, which is checked against its checksum, about 1.7 GB a second. Throws Error (kData):
  /// damaged or encrypted data, another compression, or a member of more than `most` bytes.
  ZipContent read(const ZipMember& member, int64_t most) const;

 private:
  void read_directory();
  [[noreturn]] void throw_damaged(const std::string& what) const;
  /// `count` bytes of the file from `offset` on; throws when they are not there.
  std::span<const std::byte> bytes(int64_t offset, int64_t count) const;
  uint64_t number(int64_t offset, int count) const;

  std::string path_;
  std::string content_;
  std::shared_ptr<const MappedFile> file_;
  std::vector<ZipMember> members_;
};

/// Maps a file; errors are of kind kData and say that it should be `content`.
std::shared_ptr<const MappedFile> map_data_file(const std::string& path, const std::string& content);

}  // namespace mtf
