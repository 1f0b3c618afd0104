#include "data/text/line_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/base/counted.h"
#include "engine/base/printable.h"
#include "engine/base/utf8.h"

namespace mtf {
namespace {

/// A file format that is often mistaken for a text file, and its first bytes. Except for bzip2's these bytes
/// cannot begin a text in UTF-8.
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

std::optional<std::string> invalid_utf8(std::string_view text) {
  const std::optional<size_t> invalid = first_invalid_byte(text);
  if (!invalid) return std::nullopt;
  return fmt::format("no UTF-8: byte {} after {}", printable(text.substr(*invalid, 1)),
                     counted(character_count(text.substr(0, *invalid)), "character"));
}

void check_utf8(std::string_view text, const std::string& path, std::string_view unit, int64_t number,
                TextProblems& problems) {
  if (const std::optional<std::string> invalid = invalid_utf8(text))
    problems.add(path, unit, number, *invalid, std::string(kConvertToUtf8));
}

bool is_blank_line(std::string_view line) {
  return line.find_first_not_of(" \t\v\f") == std::string_view::npos;
}

LineReader::LineReader(const std::string& path, TextProblems& problems, const TextLimit& limit)
    : file_(path, "a text file"), lines_(path, file_.reader(), limit), problems_(problems) {}

std::optional<std::string_view> LineReader::next() {
  const std::optional<std::string_view> line = lines_.next();
  if (!line) return line;
  if (lines_.line() == 1) check_first(*line);
  if (is_text_) check_utf8(*line, path(), "line", lines_.line(), problems_);
  return line;
}

/// Adds a problem if the first bytes show that the file is not text in UTF-8.
void LineReader::check_first(std::string_view line) {
  const auto found = std::ranges::find_if(
      kOtherFiles, [&](const OtherFile& other) { return line.starts_with(other.front); });
  if (found == kOtherFiles.end()) return;
  is_text_ = false;
  problems_.add(
      {ErrorKind::kData, {}, fmt::format("{}: {}", path(), found->what), std::string(found->hint), {}});
}

}  // namespace mtf
