// Reads and writes records of TFRecord files, the container format of tf.Example data and of TensorBoard's
// event files.
//
//   TFRecordReader reader("train.tfrecord");   // or .gz
//   while (const std::optional<std::string_view> record = reader.next()) ...
//
// A record consists of the data's length (8 bytes), the masked CRC-32C of the length (4 bytes), the data, and
// the masked CRC-32C of the data (4 bytes), in little endian. A CRC is masked as (crc rotated right by 15) +
// 0xa282ead8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/input_file.h"
#include "data/text/line_splitter.h"

namespace mtf {

/// Returns `data` as one record.
std::string tfrecord_frame(std::string_view data);

class TFRecordReader {
 public:
  /// Throws Error (kData) when the file cannot be opened.
  explicit TFRecordReader(const std::string& path, const TextLimit& limit = {});

  /// Returns the data of the next record, valid until the next call; nullopt at the end of the file. Throws
  /// Error: kData, with the record's number and offset, when the record exceeds the limit, a checksum is
  /// wrong or the file ends within the record; kSystem when the read fails.
  std::optional<std::string_view> next();

  /// The number of the record that was returned last; the first is 1.
  int64_t record() const { return record_; }
  /// The begin and end of the record that was returned last, in bytes of the uncompressed file.
  int64_t offset() const { return offset_; }
  int64_t end() const { return end_; }
  /// The number of bytes read from the file so far, counted before decompression.
  int64_t bytes_read() const { return file_.bytes_read(); }

 private:
  bool read_data(uint64_t length);
  std::string place() const;
  [[noreturn]] void damaged(const std::string& what) const;

  InputFile file_;
  TextLimit limit_;
  std::string data_;
  int64_t record_ = 0;  ///< the record that was returned last, or is being read
  int64_t offset_ = 0;
  int64_t end_ = 0;
};

}  // namespace mtf
