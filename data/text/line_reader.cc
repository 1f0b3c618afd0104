#include "data/text/line_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "data/text/utf8.h"
#include "engine/core/counted.h"
#include "engine/core/printable.h"

namespace mtf {
namespace {

constexpr size_t kBufferBytes = 1 << 18;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// What people take for a text file, by its first bytes. None of them can begin a text in UTF-8 but the one
/// of bzip2.
struct OtherFile {
  std::string_view front, what, hint;
};
constexpr std::string_view kUnpack = "unpack it, or compress it with gzip";
constexpr std::string_view kToUtf8 = "convert it to UTF-8, for example with `iconv -f UTF-16 -t UTF-8`";
constexpr std::array kOtherFiles = {
    OtherFile{"\x28\xb5\x2f\xfd", "it is compressed with zstd", kUnpack},
    OtherFile{"\xfd\x37zXZ", "it is compressed with xz", kUnpack},
    OtherFile{"BZh91AY&SY", "it is compressed with bzip2", kUnpack},
    OtherFile{"\xff\xfe", "it is UTF-16", kToUtf8},
    OtherFile{"\xfe\xff", "it is UTF-16", kToUtf8},
};

}  // namespace

void check_utf8(std::string_view text, const std::string& path, std::string_view unit, int64_t number,
                TextProblems& problems) {
  const std::optional<size_t> invalid = first_invalid_byte(text);
  if (!invalid) return;
  problems.add(path, unit, number,
               fmt::format("no UTF-8: byte {} after {}", printable(text.substr(*invalid, 1)),
                           counted(character_count(text.substr(0, *invalid)), "character")),
               "convert it to UTF-8, for example with `iconv -f ISO-8859-1 -t UTF-8`");
}

LineReader::LineReader(const std::string& path, TextProblems& problems)
    : file_(path, "a text file"), problems_(problems) {}

std::optional<std::string_view> LineReader::next() {
  std::optional<std::string_view> line = next_bytes();
  if (!line) return line;
  if (++line_ == 1) {
    if (line->starts_with(kByteOrderMark)) line->remove_prefix(kByteOrderMark.size());
    check_first(*line);
  }
  if (is_text_) check_utf8(*line, path(), "line", line_, problems_);
  return line;
}

/// Reports a file that is known by its first bytes to be something else than text in UTF-8.
void LineReader::check_first(std::string_view line) {
  const auto found = std::ranges::find_if(
      kOtherFiles, [&](const OtherFile& other) { return line.starts_with(other.front); });
  if (found == kOtherFiles.end()) return;
  is_text_ = false;
  problems_.add(
      {ErrorKind::kData, {}, fmt::format("{}: {}", path(), found->what), std::string(found->hint), {}});
}

/// A line as it stands in the file.
std::optional<std::string_view> LineReader::next_bytes() {
  size_t searched = begin_;
  size_t end = 0;
  while ((end = buffer_.find('\n', searched)) == std::string::npos) {
    const size_t unsearched = buffer_.size() - begin_;
    if (!refill()) break;
    searched = unsearched;  // refill() moved the rest to the front
  }
  if (end == std::string::npos && begin_ == buffer_.size()) return std::nullopt;
  const bool has_newline = end != std::string::npos;
  std::string_view line = std::string_view(buffer_).substr(begin_, has_newline ? end - begin_ : end);
  begin_ = has_newline ? end + 1 : buffer_.size();
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// Moves what has not been returned to the front of the buffer and reads on; false at the end of the file.
bool LineReader::refill() {
  if (ended_) return false;
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t kept = buffer_.size();
  const size_t wanted = std::max(kBufferBytes, kept);  // a very long line: twice as much each time
  buffer_.resize(kept + wanted);
  const auto got = static_cast<size_t>(file_.read(buffer_.data() + kept, static_cast<int64_t>(wanted)));
  buffer_.resize(kept + got);
  ended_ = got < wanted;
  return true;
}

}  // namespace mtf
