#include "data/text/line_reader.h"

#include <fmt/format.h>

#include "data/text/utf8.h"
#include "engine/core/counted.h"
#include "engine/core/printable.h"

namespace mtf {
namespace {

constexpr size_t kBufferBytes = 1 << 18;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

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
  if (++line_ == 1 && line->starts_with(kByteOrderMark)) line->remove_prefix(kByteOrderMark.size());
  check_utf8(*line, path(), "line", line_, problems_);
  return line;
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
