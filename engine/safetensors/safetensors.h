// Files of tensors in the safetensors format (github.com/huggingface/safetensors): the 8-byte length of the
// header, a JSON header with dtype, shape and offsets of each tensor, and the tensors, little endian and
// row-major. Tensors in float16, which nothing here computes with, are read as float32, which holds all their values.
//
//   const SafetensorsFile file("weights.safetensors");              // mapped; the whole header is checked
//   std::vector<float> kernel = file.at("layer_1/kernel").values<float>();
//   write_safetensors("out.safetensors", tensors, {{"step", "100"}});
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "engine/core/dtype.h"

namespace mtf {

/// A tensor in a file, or one to be written. The file or the caller owns `data`.
struct StoredTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape = {};
  std::vector<std::string> dimensions = {};  ///< names in declared order; empty if the file has none
  std::span<const std::byte> data = {};      ///< may not be aligned to the element
  int64_t offset = 0;                        ///< offset in the file, in bytes; ignored when writing

  int64_t size() const { return static_cast<int64_t>(data.size() / size_of(dtype)); }
  /// Returns a copy of the elements; the dtype must be that of T. (Booleans have one byte of `data` each.)
  template <class T>
  std::vector<T> values() const;
};

/// A safetensors file that is mapped for reading. The constructor checks the whole header; it throws Error
/// (kCheckpoint) that names the file, the tensor and what is wrong.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path) : SafetensorsFile(MappedFile(path)) {}
  explicit SafetensorsFile(MappedFile file);

  const std::string& path() const { return file_.path(); }
  /// The tensors in the order of the file. Here and below those in float16 are widened when they are first asked for, which
  /// one thread at a time may do.
  const std::vector<StoredTensor>& tensors() const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// Returns the tensor of this name, or nullptr.
  const StoredTensor* find(std::string_view name) const;
  /// Returns the tensor of this name; throws Error (kCheckpoint) if there is none.
  const StoredTensor& at(std::string_view name) const;

 private:
  const StoredTensor& wide(size_t i) const;

  MappedFile file_;
  mutable std::vector<StoredTensor> tensors_;
  mutable std::vector<bool> is_narrow_;                    ///< [tensors]: the data are float16
  mutable std::vector<std::unique_ptr<float[]>> widened_;  ///< the data of tensors that were
  std::map<std::string, size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
};

/// The layout of a file to be written: the tensors follow `header` in `order`, without gaps. Wider elements
/// come first, so that all are aligned; tensors of equal width are ordered by name. Dimension names are
/// stored in the metadata, as in "dimensions/NAME": "batch,hidden".
struct SafetensorsPlan {
  std::string header;                      ///< the 8 bytes of its length, and the JSON text
  std::vector<const StoredTensor*> order;  ///< pointers to the given tensors
};
SafetensorsPlan plan_safetensors(std::span<const StoredTensor> tensors,
                                 std::map<std::string, std::string> metadata = {});

/// Writes `tensors` to a file atomically: a reader sees the old file or the complete new one, even after a
/// crash. The file is written under a temporary name in the same directory, synced, then renamed. Throws
/// Error (kSystem) with the system's reason; the temporary file is then removed.
void write_safetensors(const std::string& path, std::span<const StoredTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

template <class T>
std::vector<T> StoredTensor::values() const {
  static_assert(!std::is_same_v<T, bool>, "std::vector<bool> holds bits");
  MTF_CHECK(dtype == DTypeOf<T>::value, "{} is {}, read as {}", name, name_of(dtype),
            name_of(DTypeOf<T>::value));
  std::vector<T> copy(size());
  if (!data.empty()) std::memcpy(copy.data(), data.data(), data.size());
  return copy;
}

}  // namespace mtf
