#include "data/zip_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <new>
#include <optional>

#include "engine/base/error.h"

namespace mtf {
namespace {

constexpr uint32_t kEndSignature = 0x06054b50, kEnd64Signature = 0x06064b50, kLocator64Signature = 0x07064b50,
                   kMemberSignature = 0x02014b50, kLocalSignature = 0x04034b50;
constexpr int64_t kEndBytes = 22, kLocator64Bytes = 20, kMemberBytes = 46, kLocalBytes = 30;
constexpr uint16_t kStored = 0, kDeflated = 8, kEncrypted = 1, kExtra64 = 1;
constexpr uint64_t kIn64 = 0xffffffff;  ///< the number stands in the extra field
constexpr int64_t kMostMembers = 1 << 16;

struct InflateEnd {
  void operator()(z_stream* stream) const {
    ::inflateEnd(stream);
    delete stream;
  }
};

/// Decompresses `from` while the result has no more than `size` bytes; nothing when it is damaged or has another size.
std::optional<std::vector<std::byte>> inflated(std::span<const std::byte> from, int64_t size) {
  const std::unique_ptr<z_stream, InflateEnd> stream(new z_stream{});
  if (::inflateInit2(stream.get(), -15) != Z_OK) throw std::bad_alloc();
  std::vector<std::byte> result;
  int64_t got = 0;
  stream->next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from.data()));
  int64_t unread = std::ssize(from);
  while (true) {
    // The size may be wrong: memory grows with what is really there.
    if (got == std::ssize(result))
      result.resize(static_cast<size_t>(std::min(size + 1, std::max<int64_t>(2 * got, 1 << 16))));
    constexpr int64_t kLargestPart = 1 << 30;
    const int64_t in = std::min(unread, kLargestPart), out = std::min(std::ssize(result) - got, kLargestPart);
    stream->avail_in = static_cast<unsigned>(in);
    stream->next_out = reinterpret_cast<Bytef*>(result.data() + got);
    stream->avail_out = static_cast<unsigned>(out);
    const int code = ::inflate(stream.get(), Z_NO_FLUSH);
    unread -= in - stream->avail_in;
    got += out - stream->avail_out;
    if (code == Z_STREAM_END) break;
    if ((code != Z_OK && code != Z_BUF_ERROR) || got > size) return std::nullopt;
    if (stream->avail_out > 0 && unread == 0) return std::nullopt;  // cut off
  }
  if (got != size) return std::nullopt;
  result.resize(static_cast<size_t>(size));
  return result;
}

uint32_t checksum_of(std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

std::shared_ptr<const MappedFile> map_data_file(const std::string& path, const std::string& content) {
  try {
    return std::make_shared<const MappedFile>(path);
  } catch (const Error& error) {
    throw Error(ErrorKind::kData, error.problems().front().message, content);
  }
}

ZipFile::ZipFile(const std::string& path, std::string content)
    : path_(path), content_(std::move(content)), file_(map_data_file(path, content_)) {
  read_directory();
}

void ZipFile::throw_damaged(const std::string& what) const {
  throw Error(ErrorKind::kData, fmt::format("{}: {}", path_, what),
              content_ + "; download or write it again");
}

std::span<const std::byte> ZipFile::bytes(int64_t offset, int64_t count) const {
  const std::span<const std::byte> all = file_->bytes();
  if (offset < 0 || count < 0 || offset > std::ssize(all) || count > std::ssize(all) - offset)
    throw_damaged("the archive is cut off or its directory is damaged");
  return all.subspan(static_cast<size_t>(offset), static_cast<size_t>(count));
}

/// A little-endian number.
uint64_t ZipFile::number(int64_t offset, int count) const {
  const std::span<const std::byte> from = bytes(offset, count);
  uint64_t value = 0;
  for (int i = count; i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(from[static_cast<size_t>(i)]);
  return value;
}

void ZipFile::read_directory() {
  const int64_t size = std::ssize(file_->bytes());
  int64_t end = size - kEndBytes;
  const int64_t first = std::max<int64_t>(0, end - 0xffff);  // before a comment
  while (end >= first && number(end, 4) != kEndSignature) --end;
  if (end < first) throw_damaged("this is no ZIP archive, or its end is missing");
  uint64_t count = number(end + 10, 2), at = number(end + 16, 4);
  if (end >= kLocator64Bytes && number(end - kLocator64Bytes, 4) == kLocator64Signature) {
    const uint64_t record = number(end - kLocator64Bytes + 8, 8);
    if (record > static_cast<uint64_t>(size) || number(static_cast<int64_t>(record), 4) != kEnd64Signature)
      throw_damaged("the archive's directory is damaged");
    count = number(static_cast<int64_t>(record) + 32, 8);
    at = number(static_cast<int64_t>(record) + 48, 8);
  }
  if (at > static_cast<uint64_t>(size)) throw_damaged("the archive's directory is damaged");
  if (count > kMostMembers)
    throw_damaged(fmt::format("the archive has {} members, more than {}", count, kMostMembers));
  auto offset = static_cast<int64_t>(at);
  for (uint64_t i = 0; i < count; ++i) {
    if (number(offset, 4) != kMemberSignature) throw_damaged("the archive's directory is damaged");
    ZipMember member;
    member.flags = static_cast<uint16_t>(number(offset + 8, 2));
    member.method = static_cast<uint16_t>(number(offset + 10, 2));
    member.checksum = static_cast<uint32_t>(number(offset + 16, 4));
    uint64_t compressed = number(offset + 20, 4), uncompressed = number(offset + 24, 4),
             header = number(offset + 42, 4);
    const auto name = static_cast<int64_t>(number(offset + 28, 2)),
               extra = static_cast<int64_t>(number(offset + 30, 2)),
               comment = static_cast<int64_t>(number(offset + 32, 2));
    const std::span<const std::byte> text = bytes(offset + kMemberBytes, name);
    member.name.assign(reinterpret_cast<const char*>(text.data()), text.size());
    const int64_t extra_begin = offset + kMemberBytes + name, extra_end = extra_begin + extra;
    for (int64_t field = extra_begin; field + 4 <= extra_end;) {
      const auto bytes_of_field = static_cast<int64_t>(number(field + 2, 2));
      if (number(field, 2) == kExtra64) {
        int64_t next = field + 4;
        for (uint64_t* value : {&uncompressed, &compressed, &header}) {
          if (*value != kIn64) continue;
          if (next + 8 > std::min(extra_end, field + 4 + bytes_of_field))
            throw_damaged("the archive's directory is damaged");
          *value = number(next, 8);
          next += 8;
        }
      }
      field += 4 + bytes_of_field;
    }
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / 4;
    if (compressed > kMost || uncompressed > kMost || header > kMost)
      throw_damaged("the archive's directory is damaged");
    member.compressed = static_cast<int64_t>(compressed);
    member.size = static_cast<int64_t>(uncompressed);
    member.header = static_cast<int64_t>(header);
    members_.push_back(std::move(member));
    offset = extra_end + comment;
  }
}

const ZipMember* ZipFile::find(std::string_view name) const {
  const auto found = std::ranges::find(members_, name, &ZipMember::name);
  return found == members_.end() ? nullptr : &*found;
}

ZipContent ZipFile::read(const ZipMember& member, int64_t most) const {
  if (member.flags & kEncrypted) throw_damaged(fmt::format("`{}` is encrypted", member.name));
  if (member.size > most)
    throw Error(ErrorKind::kData,
                fmt::format("{}: `{}` has {} bytes, more than {}", path_, member.name, member.size, most),
                "a smaller array, or a larger limit");
  if (number(member.header, 4) != kLocalSignature) throw_damaged("the archive's directory is damaged");
  const auto name = static_cast<int64_t>(number(member.header + 26, 2)),
             extra = static_cast<int64_t>(number(member.header + 28, 2));
  const std::span<const std::byte> data =
      bytes(member.header + kLocalBytes + name + extra, member.compressed);
  const auto check = [&](bool is_whole) {
    if (!is_whole) throw_damaged(fmt::format("the data of `{}` are damaged", member.name));
  };
  if (member.method == kStored) {
    if (member.compressed != member.size) throw_damaged("the archive's directory is damaged");
    check(checksum_of(data) == member.checksum);
    return {file_, data, false};
  }
  if (member.method != kDeflated)
    throw_damaged(
        fmt::format("`{}` is compressed by method {}, and only stored and deflated data can be read",
                    member.name, member.method));
  std::optional<std::vector<std::byte>> result = inflated(data, member.size);
  check(result && checksum_of(*result) == member.checksum);
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(*result));
  return {owner, *owner, true};
}

}  // namespace mtf
