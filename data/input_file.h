// An input stream over a file, read once from the beginning. gzip compression is detected and undone.
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
#include <string_view>
#include <vector>

namespace mtf {

class InputFile {
 public:
  /// kDetect: a file that begins with the bytes 31 and 139 is decompressed as gzip.
  enum class Compression { kDetect, kNone };

  /// `content` says in messages what the file should be: "an IDX file". Throws Error (kData) when the file
  /// cannot be opened.
  InputFile(std::string path, std::string content, Compression compression = Compression::kDetect);

  const std::string& path() const { return path_; }

  /// Reads up to `size` bytes and returns their number, which is smaller than `size` only at the end of the
  /// file. Throws Error: kData when the compressed data are damaged, cut off, or followed by something else;
  /// kSystem when the read fails.
  int64_t read(void* output, int64_t size);

  /// Returns read() as a function object. It refers to this InputFile, which must outlive it.
  std::function<size_t(char* buffer, size_t size)> reader() {
    return [this](char* buffer, size_t size) {
      return static_cast<size_t>(read(buffer, static_cast<int64_t>(size)));
    };
  }

  /// The number of bytes read from the file so far, counted before decompression.
  int64_t bytes_read() const { return std::ftell(file_.get()); }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
    void operator()(z_stream* stream) const {
      ::inflateEnd(stream);
      delete stream;
    }
  };
  /// Reads bytes of the file without decompressing them.
  int64_t read_raw(void* output, int64_t size);
  int64_t read_compressed(unsigned char* output, int64_t size);
  /// Starts the next member of a gzip file, which may be several joined ones; false at the end of the file.
  /// `before`: the number of decompressed bytes of the members before it.
  bool next_member(int64_t before);
  void refill();
  bool at_gzip_magic() const;
  [[noreturn]] void throw_damaged(const std::string& what) const;

  std::string path_;
  std::string content_;
  std::unique_ptr<std::FILE, Close> file_;
  std::unique_ptr<z_stream, Close> stream_;  ///< null if the file is not compressed
  std::vector<unsigned char> buffer_;        ///< compressed bytes, the input of stream_
  bool member_ended_ = false;
  int64_t position_ = 0;  ///< number of decompressed bytes returned so far
};

/// Throws Error (kData) that begins with the file: "PATH: what; hint".
[[noreturn]] void throw_bad_file(const std::string& path, const std::string& what, const std::string& hint);

/// Returns the path without ".gz" at its end.
std::string_view without_gz(std::string_view path);

/// Returns all bytes of a file, plain or .gz. Throws Error as InputFile does, and kData when there are more
/// than `most` bytes.
std::string read_file(const std::string& path, const std::string& content, int64_t most);

}  // namespace mtf
