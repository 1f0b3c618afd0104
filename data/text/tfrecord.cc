#include "data/text/tfrecord.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>

#include "engine/base/crc32c.h"
#include "engine/base/error.h"

namespace mtf {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr int64_t kHeaderBytes = 12;
constexpr int64_t kFooterBytes = 4;

template <class T>
T load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8; }

bool header_is_valid(const char* header) { return load<uint32_t>(header + 8) == masked_crc({header, 8}); }

/// Returns kNone if the file begins with a valid record header. The header of a record of 35,615 bytes begins
/// with the same two bytes as a gzip file.
InputFile::Compression compression_of(const std::string& path) {
  char header[kHeaderBytes];
  std::ifstream file(path, std::ios::binary);
  const bool plain = file.read(header, kHeaderBytes) && header_is_valid(header);
  return plain ? InputFile::Compression::kNone : InputFile::Compression::kDetect;
}

}  // namespace

std::string tfrecord_frame(std::string_view data) {
  std::string record;
  record.reserve(data.size() + kHeaderBytes + kFooterBytes);
  append<uint64_t>(record, data.size());
  append(record, masked_crc(record));
  record += data;
  append(record, masked_crc(data));
  return record;
}

TFRecordReader::TFRecordReader(const std::string& path, const TextLimit& limit)
    : file_(path, "a TFRecord file", compression_of(path)), limit_(limit) {}

std::optional<std::string_view> TFRecordReader::next() {
  offset_ = end_;
  ++record_;
  char header[kHeaderBytes];
  const int64_t got = file_.read(header, kHeaderBytes);
  if (got == 0) return std::nullopt;
  if (got < kHeaderBytes) damaged("the file ends within it");
  if (!header_is_valid(header)) damaged("the checksum of its length is wrong");
  const auto length = load<uint64_t>(header);
  if (!limit_.allows(length)) limit_.refuse(place());
  char footer[kFooterBytes];
  if (!read_data(length) || file_.read(footer, kFooterBytes) < kFooterBytes)
    damaged(fmt::format("the file ends within its {} bytes", length));
  const std::string_view data = std::string_view(data_).substr(0, length);
  if (load<uint32_t>(footer) != masked_crc(data)) damaged("the checksum of its data is wrong");
  end_ = offset_ + kHeaderBytes + static_cast<int64_t>(length) + kFooterBytes;
  return data;
}

/// Reads `length` bytes into data_; false if the file ends before.
bool TFRecordReader::read_data(uint64_t length) {
  // A wrong length can have a valid checksum, so the buffer grows only with the bytes that are really there.
  uint64_t got = 0;
  while (got < length) {
    const uint64_t want = std::min(length - got, std::max<uint64_t>(got, 1 << 20));
    if (data_.size() < got + want) data_.resize(got + want);
    const auto part = static_cast<uint64_t>(file_.read(data_.data() + got, static_cast<int64_t>(want)));
    got += part;
    if (part < want) return false;
  }
  return true;
}

std::string TFRecordReader::place() const {
  return fmt::format("{}: record {} at byte {}", file_.path(), record_, offset_);
}

void TFRecordReader::damaged(const std::string& what) const {
  throw Error(ErrorKind::kData, fmt::format("{}: {}", place(), what),
              "a TFRecord file, plain or .gz; is it complete?");
}

}  // namespace mtf
