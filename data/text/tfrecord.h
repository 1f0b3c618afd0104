// TFRecord files: a sequence of byte strings, each with its length and checksums. What tf.Example data and
// TensorBoard's event files are stored in.
//
//   TFRecordReader reader("train.tfrecord");   // or .gz
//   while (const std::optional<std::string_view> record = reader.next()) ...
//
// A record is: length (8 bytes), masked CRC-32C of the length (4), data, masked CRC-32C of the data (4),
// little endian; crc is masked as (crc rotated right by 15) + 0xa282ead8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/input_file.h"
#include "data/text/line_splitter.h"

namespace mtf {

/// `data` as a record.
std::string tfrecord_frame(std::string_view data);

class TFRecordReader {
 public:
  /// Throws Error (kData) when the file cannot be opened.
  explicit TFRecordReader(const std::string& path, const TextLimit& limit = {});

  /// The data of the next record, valid until the next call; none at the end of the file. Throws Error:
  /// kData, with the number and offset of the record, when it is longer than the limit, a checksum is wrong
  /// or the file ends within it; kSystem when the system cannot read.
  std::optional<std::string_view> next();

  /// Number of the record returned last; the first is 1.
  int64_t record() const { return record_; }
  /// Where the record returned last begins and where it ends, in bytes of the file before compression.
  int64_t offset() const { return offset_; }
  int64_t end() const { return end_; }
  /// Bytes of the file itself that were read so far.
  int64_t bytes_read() const { return file_.bytes_read(); }

 private:
  bool read_data(uint64_t length);
  std::string place() const;
  [[noreturn]] void damaged(const std::string& what) const;

  InputFile file_;
  TextLimit limit_;
  std::string data_;
  int64_t record_ = 0;  ///< that was returned last, or is being read
  int64_t offset_ = 0;
  int64_t end_ = 0;
};

}  // namespace mtf
