#include "tests/fuzz/expectations.h"

#include <stdlib.h>

#include <fstream>
#include <optional>

#include "engine/base/check.h"

namespace mtf::fuzz {
namespace {

/// Returns the number of bytes of the UTF-8 character at the front of `text`; 0 if it is invalid or moves the
/// cursor.
size_t printable_length(std::string_view text) {
  const auto byte = [text](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto continues = [&](size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
  const unsigned first = byte(0);
  if (first < 0x80) return first == '\n' || (first >= 0x20 && first != 0x7f) ? 1 : 0;
  if (first >= 0xc2 && first < 0xe0 && continues(1)) return first == 0xc2 && byte(1) < 0xa0 ? 0 : 2;
  if (first >= 0xe0 && first < 0xf0 && continues(1) && continues(2)) {
    const unsigned point = (first & 0x0fu) << 12 | (byte(1) & 0x3fu) << 6 | (byte(2) & 0x3fu);
    return point >= 0x800 && (point < 0xd800 || point > 0xdfff) ? 3 : 0;
  }
  if (first >= 0xf0 && first < 0xf5 && continues(1) && continues(2) && continues(3)) {
    const unsigned point = (first & 0x07u) << 18 | (byte(1) & 0x3fu) << 12;
    return point >= 0x10000 && point <= 0x10ffff ? 4 : 0;
  }
  return 0;
}

void expect_printable_text(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = printable_length(text.substr(at));
    MTF_CHECK(length > 0, "byte {:#04x} at {} in the message: {}", static_cast<unsigned char>(text[at]), at,
              text);
    at += length;
  }
}

void expect_printable_problem(const Problem& problem) {
  MTF_CHECK(!problem.message.empty(), "a problem without a message: {}", problem.to_string());
  expect_printable_text(problem.to_string());
}

/// A directory that is removed with all its files when the process ends.
class InputDirectory {
 public:
  InputDirectory() {
    std::error_code error;
    const bool in_memory = std::filesystem::is_directory("/dev/shm", error);
    std::string name =
        ((in_memory ? "/dev/shm" : std::filesystem::temp_directory_path()) / "mtf_fuzz_XXXXXX");
    MTF_CHECK(::mkdtemp(name.data()) != nullptr, "cannot make {}", name);
    path_ = name;
  }
  ~InputDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  InputDirectory(const InputDirectory&) = delete;
  InputDirectory& operator=(const InputDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

void expect_printable(const Error& error) {
  MTF_CHECK(!error.problems().empty(), "an Error without problems");
  for (const Problem& problem : error.problems()) expect_printable_problem(problem);
  expect_printable_text(error.what());
}

void expect_printable(const Diagnostics& diagnostics) {
  for (const Problem& problem : diagnostics.warnings()) expect_printable_problem(problem);
  for (const std::string& note : diagnostics.notes()) expect_printable_text(note);
  try {
    diagnostics.throw_if_errors();
  } catch (const Error& error) {
    expect_printable(error);
  }
}

std::string input_path(const std::string& name) {
  static const InputDirectory kDirectory;
  return (kDirectory.path() / name).string();
}

std::string write_input(const std::string& name, std::string_view bytes) {
  const std::string path = input_path(name);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

void remove_input(const std::string& name) {
  std::error_code ignored;
  std::filesystem::remove(input_path(name), ignored);
}

}  // namespace mtf::fuzz
