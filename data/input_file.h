// A file read once from its beginning; what gzip has compressed comes out as it was.
//
//   InputFile file("train-images.gz", "an IDX file");
//   char header[16];
//   if (file.read(header, 16) < 16) ...
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace mtf {

class InputFile {
 public:
  /// kDetect: gzip is known by its first two bytes, 31 and 139.
  enum class Compression { kDetect, kNone };

  /// `content` is for messages: "an IDX file". Throws Error (kData) when the file cannot be opened.
  InputFile(std::string path, std::string content, Compression compression = Compression::kDetect);

  const std::string& path() const { return path_; }

  /// Bytes that were there, at most `size`; fewer only at the end of the file. Throws Error: kData when the
  /// compressed data are damaged or cut off, kSystem when the system cannot read.
  int64_t read(void* output, int64_t size);

 private:
  struct Close {
    void operator()(gzFile file) const { ::gzclose(file); }
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  int64_t read_compressed(char* output, int64_t size);
  [[noreturn]] void throw_unreadable(int error) const;

  std::string path_;
  std::string content_;
  std::unique_ptr<gzFile_s, Close> compressed_;  ///< one of the two is open
  std::unique_ptr<std::FILE, Close> plain_;
  int64_t position_ = 0;  ///< bytes read so far
};

}  // namespace mtf
