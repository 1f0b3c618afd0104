// A file read once from its beginning; what gzip has compressed comes out as it was.
//
//   InputFile file("train-images.gz", "an IDX file");
//   char header[16];
//   if (file.read(header, 16) < 16) ...
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mtf {

class InputFile {
 public:
  /// kDetect: gzip is known by its first two bytes, 31 and 139.
  enum class Compression { kDetect, kNone };

  /// `content` is for messages: "an IDX file". Throws Error (kData) when the file cannot be opened.
  InputFile(std::string path, std::string content, Compression compression = Compression::kDetect);

  const std::string& path() const { return path_; }

  /// Bytes that were there, at most `size`; fewer only at the end of the file. Throws Error: kData when the
  /// compressed data are damaged, cut off, or followed by something else; kSystem when the system cannot
  /// read.
  int64_t read(void* output, int64_t size);

  /// read() as a function, which refers to this object.
  std::function<size_t(char* buffer, size_t size)> reader() {
    return [this](char* buffer, size_t size) {
      return static_cast<size_t>(read(buffer, static_cast<int64_t>(size)));
    };
  }

  /// Bytes of the file itself, before decompression, that were read so far.
  int64_t bytes_read() const { return std::ftell(file_.get()); }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
    void operator()(z_stream* stream) const {
      ::inflateEnd(stream);
      delete stream;
    }
  };
  /// Bytes of the file itself.
  int64_t read_raw(void* output, int64_t size);
  int64_t read_compressed(unsigned char* output, int64_t size);
  /// Makes the next member of a compressed file (gzip files can be joined) or, at the end of the file,
  /// nothing; true when there is one. `before`: bytes of the members before.
  bool next_member(int64_t before);
  void refill();
  bool at_gzip_magic() const;
  [[noreturn]] void throw_damaged(const std::string& what) const;

  std::string path_;
  std::string content_;
  std::unique_ptr<std::FILE, Close> file_;
  std::unique_ptr<z_stream, Close> stream_;  ///< nothing: the file is not compressed
  std::vector<unsigned char> buffer_;        ///< of the file, from which stream_ reads
  bool member_ended_ = false;
  int64_t position_ = 0;  ///< bytes read so far
};

/// All bytes of a file, plain or .gz. Throws Error as InputFile does, and kData when there are more than
/// `most`.
std::string read_file(const std::string& path, const std::string& content, int64_t most);

}  // namespace mtf
