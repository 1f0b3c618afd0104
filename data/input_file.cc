#include "data/input_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "engine/core/error.h"

namespace mtf {
namespace {

constexpr unsigned kBufferBytes = 1 << 17;

}  // namespace

InputFile::InputFile(std::string path, std::string content, Compression compression)
    : path_(std::move(path)), content_(std::move(content)) {
  if (compression == Compression::kDetect) {
    compressed_.reset(::gzopen(path_.c_str(), "rb"));
    if (compressed_) ::gzbuffer(compressed_.get(), kBufferBytes);
  } else {
    plain_.reset(std::fopen(path_.c_str(), "rb"));
    if (plain_) std::setvbuf(plain_.get(), nullptr, _IOFBF, kBufferBytes);
  }
  const bool opened = compressed_ || plain_;
  const int reason = errno;
  std::error_code ignored;
  const int error = !opened ? reason : std::filesystem::is_directory(path_, ignored) ? EISDIR : 0;
  if (error == 0) return;
  throw Error(ErrorKind::kData, fmt::format("cannot read {}: {}", path_, system_message(error)),
              fmt::format("the path of {}, plain or .gz", content_));
}

int64_t InputFile::read(void* output, int64_t size) {
  int64_t got = 0;
  if (compressed_) {
    got = read_compressed(static_cast<char*>(output), size);
  } else {
    got = static_cast<int64_t>(std::fread(output, 1, static_cast<size_t>(size), plain_.get()));
    if (got < size && std::ferror(plain_.get())) throw_unreadable(errno);
  }
  position_ += got;
  return got;
}

int64_t InputFile::read_compressed(char* output, int64_t size) {
  int64_t done = 0;
  while (done < size) {
    const auto chunk = static_cast<unsigned>(std::min<int64_t>(size - done, 1 << 30));
    const int got = ::gzread(compressed_.get(), output + done, chunk);
    if (got > 0) done += got;
    if (got == static_cast<int>(chunk)) continue;
    // Data that are cut off read short, and only the code says so.
    int code = Z_OK;
    const std::string what = ::gzerror(compressed_.get(), &code);
    if (code == Z_ERRNO) throw_unreadable(errno);
    if (code == Z_OK || code == Z_STREAM_END) return done;
    throw Error(ErrorKind::kData,
                fmt::format("{}: {} after {} bytes", path_,
                            code == Z_BUF_ERROR ? "the compressed data are cut off" : what, position_ + done),
                "the file is damaged; download it again");
  }
  return done;
}

void InputFile::throw_unreadable(int error) const {
  throw Error(ErrorKind::kSystem, fmt::format("{}: cannot be read: {}", path_, system_message(error)),
              content_ + ", plain or .gz");
}

}  // namespace mtf
