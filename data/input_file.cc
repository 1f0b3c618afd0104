#include "data/input_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <new>
#include <utility>

#include "engine/base/error.h"

namespace mtf {
namespace {

constexpr size_t kBufferBytes = 1 << 17;
constexpr std::array<unsigned char, 2> kGzipMagic = {31, 139};
/// The windowBits argument of zlib: the largest window (15), and 16 for the gzip header and checksum.
constexpr int kGzipWindow = 15 + 16;

}  // namespace

InputFile::InputFile(std::string path, std::string content, Compression compression)
    : path_(std::move(path)), content_(std::move(content)), file_(std::fopen(path_.c_str(), "rb")) {
  const int reason = errno;
  std::error_code ignored;
  const int error = !file_ ? reason : std::filesystem::is_directory(path_, ignored) ? EISDIR : 0;
  if (error != 0) {
    throw Error(ErrorKind::kData, fmt::format("cannot read {}: {}", path_, system_message(error)),
                fmt::format("the path of {}, plain or .gz", content_));
  }
  std::setvbuf(file_.get(), nullptr, _IOFBF, kBufferBytes);
  if (compression == Compression::kNone) return;
  std::array<unsigned char, 2> front{};
  const int64_t got = read_raw(front.data(), 2);
  const bool compressed = got == 2 && front == kGzipMagic;
  for (int64_t i = got; i > 0; --i)
    std::ungetc(front[static_cast<size_t>(i - 1)], file_.get());  // a pipe cannot seek back
  if (!compressed) return;
  stream_.reset(new z_stream{});
  if (::inflateInit2(stream_.get(), kGzipWindow) != Z_OK) throw std::bad_alloc();
  buffer_.resize(kBufferBytes);
}

int64_t InputFile::read(void* output, int64_t size) {
  const int64_t got =
      stream_ ? read_compressed(static_cast<unsigned char*>(output), size) : read_raw(output, size);
  position_ += got;
  return got;
}

int64_t InputFile::read_raw(void* output, int64_t size) {
  const auto got = static_cast<int64_t>(std::fread(output, 1, static_cast<size_t>(size), file_.get()));
  if (got < size && std::ferror(file_.get())) {
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot be read: {}", path_, system_message(errno)),
                content_ + ", plain or .gz");
  }
  return got;
}

int64_t InputFile::read_compressed(unsigned char* output, int64_t size) {
  constexpr int64_t kLargestPart = 1 << 30;
  int64_t done = 0;
  while (done < size) {
    if (member_ended_ && !next_member(position_ + done)) break;
    if (stream_->avail_in == 0) refill();
    const bool at_end = stream_->avail_in == 0;
    const auto part = static_cast<unsigned>(std::min(size - done, kLargestPart));
    stream_->next_out = output + done;
    stream_->avail_out = part;
    const int code = ::inflate(stream_.get(), Z_NO_FLUSH);
    done += part - stream_->avail_out;
    member_ended_ = code == Z_STREAM_END;
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
      throw_damaged(fmt::format("the compressed data are damaged ({})",
                                stream_->msg != nullptr ? stream_->msg : ::zError(code)));
    if (at_end && code != Z_STREAM_END && stream_->avail_out > 0)
      throw_damaged(fmt::format("the compressed data are cut off after {} bytes", position_ + done));
  }
  return done;
}

bool InputFile::next_member(int64_t before) {
  if (stream_->avail_in < kGzipMagic.size()) refill();
  if (stream_->avail_in == 0) return false;
  if (!at_gzip_magic())
    throw_damaged(fmt::format("something else follows the {} bytes of the compressed data", before));
  ::inflateReset(stream_.get());
  member_ended_ = false;
  return true;
}

/// Moves the unread part of the buffer to its front and fills the rest from the file.
void InputFile::refill() {
  std::copy_n(stream_->next_in, stream_->avail_in, buffer_.begin());
  const size_t left = stream_->avail_in;
  const int64_t got = read_raw(buffer_.data() + left, static_cast<int64_t>(buffer_.size() - left));
  stream_->next_in = buffer_.data();
  stream_->avail_in = static_cast<unsigned>(left + static_cast<size_t>(got));
}

bool InputFile::at_gzip_magic() const {
  return stream_->avail_in >= kGzipMagic.size() &&
         std::equal(kGzipMagic.begin(), kGzipMagic.end(), stream_->next_in);
}

void InputFile::throw_damaged(const std::string& what) const {
  throw Error(ErrorKind::kData, fmt::format("{}: {}", path_, what), "the file is damaged; download it again");
}

void throw_bad_file(const std::string& path, const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::kData, fmt::format("{}: {}", path, what), hint);
}

std::string_view without_gz(std::string_view path) {
  if (path.ends_with(".gz")) path.remove_suffix(3);
  return path;
}

std::string read_file(const std::string& path, const std::string& content, int64_t most) {
  InputFile file(path, content);
  std::string bytes;
  int64_t got = 0;
  do {
    const size_t before = bytes.size();
    bytes.resize(before + kBufferBytes);
    got = file.read(bytes.data() + before, kBufferBytes);
    bytes.resize(before + static_cast<size_t>(got));
    if (static_cast<int64_t>(bytes.size()) > most)
      throw Error(ErrorKind::kData, fmt::format("{}: more than {} bytes", path, most),
                  fmt::format("{}, plain or .gz", content));
  } while (got > 0);
  return bytes;
}

}  // namespace mtf
