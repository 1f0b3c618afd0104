#include "data/text/line_splitter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/base/error.h"

namespace mtf {
namespace {

constexpr size_t kReadBytes = 1 << 18;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

bool TextLimit::allows(uint64_t size) const {
  if (size > static_cast<uint64_t>(bytes)) return false;
  if (longest != nullptr) *longest = std::max(*longest, static_cast<int64_t>(size));
  return true;
}

void TextLimit::refuse(const std::string& place) const {
  throw Error(ErrorKind::kData, fmt::format("{}: longer than {} bytes", place, bytes),
              fmt::format("a file of shorter texts, or a greater `{}`", setting));
}

ReadBytes read_from(int descriptor, const std::string& name) {
  return [descriptor, name](char* buffer, size_t size) {
    ssize_t got;
    do {
      got = ::read(descriptor, buffer, size);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
      throw Error(ErrorKind::kSystem, fmt::format("{} cannot be read: {}", name, system_message(errno)));
    return static_cast<size_t>(got);
  };
}

LineSplitter::LineSplitter(std::string name, ReadBytes read, const TextLimit& limit)
    : name_(std::move(name)), read_(std::move(read)), limit_(limit) {}

std::optional<std::string_view> LineSplitter::next() {
  const char* newline = nullptr;
  for (size_t searched = 0;;) {
    const char* const text = buffer_.data() + begin_;
    const size_t size = end_ - begin_;
    newline = size == searched
                  ? nullptr
                  : static_cast<const char*>(std::memchr(text + searched, '\n', size - searched));
    if (!limit_.allows(newline == nullptr ? size : static_cast<size_t>(newline - text)))
      limit_.refuse(fmt::format("{}: line {}", name_, line_ + 1));
    if (newline != nullptr) break;
    searched = size;
    if (!refill()) break;
  }
  if (line_ == 0 && std::string_view(buffer_.data() + begin_, end_ - begin_).starts_with(kByteOrderMark))
    begin_ += kByteOrderMark.size();
  if (newline == nullptr && begin_ == end_) return std::nullopt;
  ++line_;
  const char* const text = buffer_.data() + begin_;
  const size_t size = newline == nullptr ? end_ - begin_ : static_cast<size_t>(newline - text);
  begin_ = newline == nullptr ? end_ : begin_ + size + 1;
  std::string_view line(text, size);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// Moves the bytes that were not returned to the front of the buffer and reads more; false at the end.
bool LineSplitter::refill() {
  if (ended_) return false;
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
            buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
  end_ -= begin_;
  begin_ = 0;
  if (buffer_.size() < end_ + kReadBytes) buffer_.resize(2 * end_ + kReadBytes);
  const size_t got = read_(buffer_.data() + end_, buffer_.size() - end_);
  end_ += got;
  ended_ = got == 0;
  return !ended_;
}

}  // namespace mtf
