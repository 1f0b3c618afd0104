#include "data/sources/npy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <limits>

#include "tests/data/data_testing.h"
#include "tests/support/failure.h"

namespace mtf::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Returns a little-endian number of `bytes` bytes.
std::string number(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i);
  return text;
}

/// Returns an NPY file of version 1 with this dictionary.
std::string npy_of(const std::string& dictionary, std::string_view data) {
  std::string header = dictionary;
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  return "\x93NUMPY" + std::string("\1\0", 2) + number(header.size(), 2) + header + std::string(data);
}
std::string npy(const std::string& type, const std::string& shape, std::string_view data,
                bool fortran = false) {
  return npy_of(fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", type,
                            fortran ? "True" : "False", shape),
                data);
}

/// Returns a ZIP archive of stored or deflated members.
std::string zip(const std::vector<std::pair<std::string, std::string>>& members, bool deflate) {
  std::string archive, directory;
  for (const auto& [name, content] : members) {
    std::string data = content;
    if (deflate) {
      z_stream stream{};
      deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
      data.resize(content.size() + 100);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
      stream.avail_in = static_cast<unsigned>(content.size());
      stream.next_out = reinterpret_cast<Bytef*>(data.data());
      stream.avail_out = static_cast<unsigned>(data.size());
      ::deflate(&stream, Z_FINISH);
      data.resize(stream.total_out);
      deflateEnd(&stream);
    }
    const auto checksum =
        crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<unsigned>(content.size()));
    const std::string common = number(20, 2) + number(0, 2) + number(deflate ? 8 : 0, 2) + number(0, 4) +
                               number(checksum, 4) + number(data.size(), 4) + number(content.size(), 4) +
                               number(name.size(), 2) + number(0, 2);
    directory += "PK\1\2" + number(20, 2) + common + number(0, 2) + number(0, 2) + number(0, 2) +
                 number(0, 4) + number(archive.size(), 4) + name;
    archive += "PK\3\4" + common + name + data;
  }
  return archive + directory + "PK\5\6" + number(0, 4) + number(members.size(), 2) +
         number(members.size(), 2) + number(directory.size(), 4) + number(archive.size(), 4) + number(0, 2);
}

std::unique_ptr<ArraySource> source_of(const std::string& name, NpyArray array) {
  return open_arrays({{name, std::move(array)}}, {});
}

class Npy : public FilesTest {};

TEST_F(Npy, ReadsEachTypeAndByteOrder) {
  const auto value = [&](const std::string& type, std::string_view bytes) {
    const auto source = source_of("x", read_npy(file("f.npy", npy(type, "(1,)", bytes))));
    if (source->features()[0].dtype == DType::kInt32)
      return static_cast<float>(values_of<int32_t>(*source, "x", 0)[0]);
    return values_of<float>(*source, "x", 0)[0];
  };
  EXPECT_EQ(value("|b1", "\1"), 1);
  EXPECT_EQ(value("|i1", "\xfe"), -2);
  EXPECT_EQ(value("|u1", "\xff"), 1.0f);  // bytes are scaled
  EXPECT_EQ(value("<i2", "\xfe\xff"), -2);
  EXPECT_EQ(value(">i2", "\xff\xfe"), -2);
  EXPECT_EQ(value("<u2", "\xfe\xff"), 65534);
  EXPECT_EQ(value("<i4", "\xfe\xff\xff\xff"), -2);
  EXPECT_EQ(value(">u4", std::string_view("\0\0\1\2", 4)), 258);
  EXPECT_EQ(value("<i8", "\xfe\xff\xff\xff\xff\xff\xff\xff"), -2);
  EXPECT_EQ(value(">u8", std::string_view("\0\0\0\0\0\0\1\2", 8)), 258);
  EXPECT_EQ(value("<f4", std::string_view("\0\0\0\xc0", 4)), -2);
  EXPECT_EQ(value(">f4", std::string_view("\xc0\0\0\0", 4)), -2);
  EXPECT_EQ(value("<f8", std::string_view("\0\0\0\0\0\0\0\xc0", 8)), -2);
  EXPECT_EQ(value("<f2", std::string_view("\0\xc0", 2)), -2);
  EXPECT_EQ(value("<f2", std::string_view("\x01\0", 2)), std::ldexp(1.0f, -24));
  EXPECT_EQ(value("<f2", std::string_view("\xff\x7b", 2)), 65504);
  EXPECT_EQ(value("<f2", std::string_view("\0\x7c", 2)), std::numeric_limits<float>::infinity());
}

TEST_F(Npy, CAndFortranOrderAreTheSameExamples) {
  // example 0: [[0, 1, 2], [3, 4, 5]], example 1: + 6
  const std::string c =
      file("c.npy", npy("|i1", "(2, 2, 3)", std::string_view("\0\1\2\3\4\5\6\7\10\11\12\13", 12)));
  const std::string f =
      file("f.npy", npy("|i1", "(2, 2, 3)", std::string_view("\0\6\3\11\1\7\4\12\2\10\5\13", 12), true));
  for (const std::string& path : {c, f}) {
    const auto source = source_of("x", read_npy(path));
    EXPECT_EQ(source->features()[0], (Feature{"x", {{"rows", 2}, {"cols", 3}}, DType::kInt32}));
    EXPECT_EQ(source->bytes_in_memory(), 0);
    EXPECT_THAT(values_of<int32_t>(*source, "x", 0), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_THAT(values_of<int32_t>(*source, "x", 1), ElementsAre(6, 7, 8, 9, 10, 11));
    EXPECT_FALSE(source->has_bytes(0));
    expect_boxes_of_the_whole(*source, 0);
  }
}

TEST_F(Npy, BytesCanBeReadAsTheyAre) {
  for (const bool fortran : {false, true}) {
    const auto source = source_of(
        "x",
        read_npy(file("bytes.npy", npy("|u1", "(2, 2, 3)",
                                       std::string_view("\0\1\2\3\4\377\6\7\10\11\12\13", 12), fortran))));
    EXPECT_TRUE(source->has_bytes(0));
    expect_boxes_of_the_whole(*source, 0);
  }
}

TEST_F(Npy, CompressedFilesAndArchivesAreTheSame) {
  const std::string x = npy("<i4", "(3,)", std::string_view("\1\0\0\0\2\0\0\0\3\0\0\0", 12));
  const std::string labels = npy("|u1", "(3,)", "\1\2\3");
  EXPECT_THAT(values_of<int32_t>(*source_of("x", read_npy(compressed("x.npy.gz", x))), "x", 2),
              ElementsAre(3));
  for (const bool deflate : {false, true}) {
    const std::map<std::string, NpyArray> arrays =
        read_npz(file("data.npz", zip({{"x.npy", x}, {"labels.npy", labels}}, deflate)));
    ASSERT_EQ(arrays.size(), 2u);
    EXPECT_EQ(arrays.at("x").in_memory, deflate);
    const auto source = open_arrays({arrays.begin(), arrays.end()}, {});
    EXPECT_THAT(values_of<int32_t>(*source, "x", 1), ElementsAre(2));
    EXPECT_THAT(values_of<int32_t>(*source, "labels", 1), ElementsAre(2));
    source->check_labels({4});
    EXPECT_THAT(failure([&] { source->check_labels({3}); }),
                HasSubstr("data.npz:labels: label 3 of example 2"));
  }
}

TEST_F(Npy, LabelsOfAnyNameAreComparedWithTheClasses) {
  const auto source = source_of(
      "tags",
      read_npy(file("t.npy", npy("<i4", "(3,)", std::string_view("\0\0\0\0\xff\xff\xff\xff\2\0\0\0", 12)))));
  source->check_labels({.classes = 1});
  source->check_labels({.classes = 3, .feature = "tags", .may_lack = true});
  EXPECT_THAT(failure([&] { source->check_labels({.classes = 3, .feature = "tags"}); }),
              HasSubstr("label -1 of example 1, but there are 3 classes"));
  EXPECT_THAT(failure([&] { source->check_labels({.classes = 2, .feature = "tags", .may_lack = true}); }),
              HasSubstr("label 2 of example 2"));
}

TEST_F(Npy, WhatIsNoArrayOfNumbersIsRefused) {
  const auto refused = [&](const std::string& bytes) {
    return failure([&] { read_npy(file("f.npy", bytes)); }, ErrorKind::kData);
  };
  EXPECT_THAT(refused(npy("|O", "(1,)", "gANdcQAu")), AllOf(HasSubstr("f.npy"), HasSubstr("Python objects")));
  EXPECT_THAT(refused(npy("<U3", "(1,)", "a")), HasSubstr("texts"));
  EXPECT_THAT(refused(npy("<c8", "(1,)", "12345678")), HasSubstr("complex"));
  EXPECT_THAT(refused(npy("<M8[ns]", "(1,)", "12345678")), HasSubstr("`<M8[ns]`"));
  EXPECT_THAT(refused(npy_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "1234")),
              HasSubstr("structures"));
  EXPECT_THAT(refused(npy("<f16", "(1,)", "1234567812345678")), HasSubstr("`<f16`"));
  EXPECT_THAT(refused(npy("<f4", "(2,)", "1234")),
              AllOf(HasSubstr("4 bytes of data"), HasSubstr("8 (2 of float32)")));
  EXPECT_THAT(refused(npy("<f4", "(1,)", "12345")), HasSubstr("goes on after the 4 bytes"));
  EXPECT_THAT(refused(npy("<f4", "(99999999999, 99999999999)", "")), HasSubstr("no file is so large"));
  EXPECT_THAT(refused(npy("<f4", "(-1,)", "")), HasSubstr("header is"));
  EXPECT_THAT(refused(npy_of("{'descr': '<f4'}", "")), HasSubstr("header is"));
  EXPECT_THAT(refused("\x93NUMPY"), HasSubstr("within its header"));
  EXPECT_THAT(refused("GIF89a......"), HasSubstr("does not begin as an NPY file"));
  EXPECT_THAT(refused(""), HasSubstr("does not begin"));
  EXPECT_THAT(failure([&] { source_of("x", read_npy(file("n.npy", npy("<f4", "()", "1234")))); }),
              HasSubstr("one number"));
  EXPECT_THAT(failure([&] { source_of("x", read_npy(file("n.npy", npy("<f4", "(0, 3)", "")))); }),
              HasSubstr("0 x 3"));
  const std::string large = file("l.npy", npy("<i8", "(2,)", std::string(8, '\0') + std::string(8, '\1')));
  for (const char* name : {"x", "labels"})
    EXPECT_THAT(failure([&] { source_of(name, read_npy(large)); }, ErrorKind::kData),
                HasSubstr(fmt::format(
                    "l.npy: feature `{}` of example 1 has a number that int32 does not have", name)));
}

TEST_F(Npy, DamagedArchivesAreRefused) {
  const std::string good = zip({{"x.npy", npy("<f4", "(1,)", "1234")}}, true);
  const auto refused = [&](const std::string& bytes) {
    return failure([&] { read_npz(file("f.npz", bytes)); }, ErrorKind::kData);
  };
  EXPECT_EQ(refused(good), "no error");
  EXPECT_THAT(refused(good.substr(0, good.size() - 1)), HasSubstr("ZIP"));
  EXPECT_THAT(refused(good.substr(10)), HasSubstr("damaged"));
  std::string flipped = good;
  flipped[45] = static_cast<char>(flipped[45] ^ 4);
  EXPECT_THAT(refused(flipped), HasSubstr("damaged"));
  std::string stored = zip({{"x.npy", npy("<f4", "(1,)", "1234")}}, false);
  EXPECT_EQ(refused(stored), "no error");
  stored[stored.find("1234")] = '5';
  EXPECT_THAT(refused(stored), HasSubstr("the data of `x.npy` are damaged; an NPZ file"));
  EXPECT_THAT(failure([&] { read_npz(file("f.npz", good), {}, 10); }), HasSubstr("more than 10"));
  EXPECT_THAT(refused(zip({}, false)), HasSubstr("no arrays"));
}

TEST_F(Npy, OnlyTheArraysThatAreWantedAreRead) {
  const std::string x = npy("<f4", "(1,)", "1234"), texts = npy("<U1", "(1,)", "abcd");
  const std::string path = file("data.npz", zip({{"x.npy", x}, {"names.npy", texts}}, true));
  const auto arrays = read_npz(path, {"x"});
  ASSERT_EQ(arrays.size(), 1u);
  EXPECT_EQ(arrays.at("x").path, path + ":x");
  EXPECT_THAT(failure([&] { read_npz(path); }, ErrorKind::kData), HasSubstr("data.npz:names"));
  // Another one may be larger than all that may be decompressed.
  const std::string large = npy("<f4", "(1000,)", std::string(4000, '\0'));
  const std::string both = file("both.npz", zip({{"large.npy", large}, {"x.npy", x}}, true));
  EXPECT_EQ(read_npz(both, {"x"}, 1000).size(), 1u);
  EXPECT_THAT(failure([&] { read_npz(both, {}, 1000); }), HasSubstr("more than 1000"));
}

TEST_F(Npy, WantedArraysThatAreNotThereAreNamedAtTheirPlace) {
  const std::string path = file("data.npz", zip({{"x_train.npy", npy("<f4", "(1,)", "1234")}}, false));
  const Mark mark{.file = "c.yaml", .line = 3, .column = 7, .text = {}};
  EXPECT_THAT(failure(
                  [&] {
                    read_npz(path, {{"x_trian", mark}});
                  },
                  ErrorKind::kConfig),
              AllOf(HasSubstr("c.yaml:3:7: " + path + " has no array `x_trian`"), HasSubstr("`x_train`")));
}

TEST_F(Npy, ArraysMustHaveTheSameNumberOfExamples) {
  const std::string two = file("two.npy", npy("<f4", "(2,)", "12345678")),
                    one = file("one.npy", npy("<f4", "(1,)", "1234"));
  EXPECT_THAT(failure([&] {
                open_arrays({{"x", read_npy(two)}, {"y", read_npy(one)}}, {});
              }),
              AllOf(HasSubstr(one), HasSubstr("1 examples, but " + two + " has 2")));
}

}  // namespace
}  // namespace mtf::testing
