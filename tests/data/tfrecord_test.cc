#include "data/text/tfrecord.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "engine/base/error.h"
#include "tests/support/failure.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TFRecord : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string file(const std::string& name, const std::string& bytes) const {
    std::ofstream(directory_ + name, std::ios::binary) << bytes;
    return directory_ + name;
  }

  std::string compressed(const std::string& name, const std::string& bytes) const {
    const gzFile file = gzopen((directory_ + name).c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return directory_ + name;
  }

  std::string directory_ =
      ::testing::TempDir() + ::testing::UnitTest::GetInstance()->current_test_info()->name() + "/";
};

std::vector<std::string> records(const std::string& path) {
  TFRecordReader reader(path);
  std::vector<std::string> result;
  while (const auto record = reader.next()) result.emplace_back(*record);
  return result;
}

/// Returns the error of reading the file to its end.
std::string record_failure(const std::string& path) {
  return failure([&] { records(path); }, ErrorKind::kData);
}

TEST_F(TFRecord, HasTheBytesThatTensorBoardWrites) {
  // Written by tensorboard.summary.writer.record_writer.RecordWriter(file).write(b"hello").
  const std::string expected =
      std::string("\x05\0\0\0\0\0\0\0", 8) + "\xea\xb2\x04\x3e" + "hello" + "\xbb\x1f\x1c\x19";
  EXPECT_EQ(tfrecord_frame("hello"), expected);
}

TEST_F(TFRecord, RecordsAreReadBackInOrderPlainAndCompressed) {
  const std::string large(3'000'000, 'x');
  const std::string bytes =
      tfrecord_frame("one") + tfrecord_frame("") + tfrecord_frame(large) + tfrecord_frame("end");
  EXPECT_THAT(records(file("plain", bytes)), ElementsAre("one", "", large, "end"));
  EXPECT_THAT(records(compressed("file.gz", bytes)), ElementsAre("one", "", large, "end"));
  EXPECT_THAT(records(file("empty", "")), ElementsAre());
}

TEST_F(TFRecord, SaysWhereARecordLies) {
  TFRecordReader reader(file("f", tfrecord_frame("abc") + tfrecord_frame("defgh")));
  ASSERT_EQ(reader.next(), "abc");
  EXPECT_EQ(reader.offset(), 0);
  EXPECT_EQ(reader.end(), 19);
  ASSERT_EQ(reader.next(), "defgh");
  EXPECT_EQ(reader.offset(), 19);
  EXPECT_EQ(reader.end(), 40);
  EXPECT_EQ(reader.next(), std::nullopt);
}

TEST_F(TFRecord, AFirstRecordWhoseLengthLooksLikeGzipIsRead) {
  const std::string data(35615, 'x');  // 31 + 139 * 256
  const std::string path = file("f", tfrecord_frame(data) + tfrecord_frame("next"));
  EXPECT_THAT(records(path), ElementsAre(data, "next"));
}

TEST_F(TFRecord, EveryFlippedBitIsNoticedAndPlaced) {
  const std::string first = tfrecord_frame("first"), bytes = first + tfrecord_frame("second");
  for (size_t i = first.size(); i < bytes.size(); ++i) {
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ 1 << i % 8);
    const std::string path = file("f", flipped);
    const std::string expected =
        i < first.size() + 12 ? "the checksum of its length is wrong" : "the checksum of its data is wrong";
    EXPECT_THAT(record_failure(path), HasSubstr(path + ": record 2 at byte 21: " + expected)) << i;
  }
}

TEST_F(TFRecord, EveryTornEndIsNoticed) {
  const std::string first = tfrecord_frame("first"), bytes = first + tfrecord_frame("second");
  for (size_t size = first.size() + 1; size < bytes.size(); ++size) {
    EXPECT_THAT(record_failure(file("f", bytes.substr(0, size))),
                HasSubstr("f: record 2 at byte 21: the file ends within"));
    EXPECT_THAT(record_failure(compressed("f.gz", bytes.substr(0, size))),
                HasSubstr("f.gz: record 2 at byte 21: the file"));
  }
  const std::string path = compressed("cut.gz", bytes);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 9);
  EXPECT_THAT(record_failure(path), HasSubstr("cut.gz: the compressed data are cut off after"));
}

TEST_F(TFRecord, AMadeUpLengthTakesNoMemory) {
  for (const uint64_t length : {uint64_t{1} << 40, ~uint64_t{0}}) {
    // The frame has a wrong length with a valid checksum: those of another record.
    const std::string number(reinterpret_cast<const char*>(&length), 8);
    const std::string masked_crc =
        tfrecord_frame(number).substr(20);  // the checksum of its data, which are the eight bytes
    EXPECT_THAT(record_failure(file("f", number + masked_crc + "data")),
                HasSubstr("record 1 at byte 0: longer than 67108864 bytes"));
    TFRecordReader unlimited(directory_ + "f", {.bytes = std::numeric_limits<int64_t>::max()});
    EXPECT_THAT(failure([&] { unlimited.next(); }),
                ::testing::AnyOf(HasSubstr("record 1 at byte 0: the file ends within its"),
                                 HasSubstr("record 1 at byte 0: longer than")));
  }
}

TEST_F(TFRecord, RecordsHaveALimit) {
  TFRecordReader reader(file("f", tfrecord_frame("0123456789") + tfrecord_frame("0123456789x")),
                        {.bytes = 10});
  EXPECT_EQ(reader.next(), "0123456789");
  EXPECT_THAT(failure([&] { reader.next(); }),
              HasSubstr("f: record 2 at byte 26: longer than 10 bytes; a file of shorter texts, or a greater "
                        "`data.max_line_bytes`"));
}

TEST_F(TFRecord, OtherFilesAreRefused) {
  EXPECT_THAT(record_failure(file("text", "Not records at all, but a text.")),
              HasSubstr("text: record 1 at byte 0: the checksum"));
  EXPECT_THAT(record_failure(directory_ + "none"), HasSubstr("none: No such file or directory"));
  EXPECT_THAT(record_failure(directory_), HasSubstr("Is a directory"));
}

}  // namespace
}  // namespace mtf
