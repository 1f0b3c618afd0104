#include "data/sources/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "data/class_names.h"
#include "engine/base/error.h"
#include "tests/data/data_testing.h"
#include "tests/support/failure.h"

namespace mtf {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Returns an IDX file: big-endian magic number and sizes, then bytes.
std::string idx(std::vector<uint32_t> header, const std::string& data) {
  std::string bytes;
  for (const uint32_t number : header)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes + data;
}

IdxArray read_images(const std::string& path) { return read_idx(path, IdxContent::kImages); }
IdxArray read_labels(const std::string& path) { return read_idx(path, IdxContent::kLabels); }

std::vector<int> numbers_of(const IdxArray& array) {
  std::vector<int> numbers;
  for (const std::byte byte : array.bytes) numbers.push_back(std::to_integer<int>(byte));
  return numbers;
}

class Idx : public ::testing::Test {
 protected:
  Idx() { std::filesystem::create_directories(directory_); }
  ~Idx() override { std::filesystem::remove_all(directory_); }

  std::string plain(const std::string& name, const std::string& bytes) const {
    std::ofstream(directory_ / name, std::ios::binary) << bytes;
    return (directory_ / name).string();
  }
  std::string compressed(const std::string& name, const std::string& bytes) const {
    const std::string path = (directory_ / name).string();
    const gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return path;
  }

  const std::string two_images_ = idx({2051, 2, 1, 3}, std::string("\0\x33\xff\x01\x02\x03", 6));
  const std::string two_labels_ = idx({2049, 2}, "\x07\x02");
  std::filesystem::path directory_ = std::filesystem::path(::testing::TempDir()) /
                                     ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(Idx, ReadsPlainAndCompressedFiles) {
  for (const std::string& path : {plain("images", two_images_), compressed("images.gz", two_images_)}) {
    const IdxArray images = read_images(path);
    EXPECT_EQ(images.type, StoredType::kUint8);
    EXPECT_THAT(images.sizes, ElementsAre(2, 1, 3));
    EXPECT_THAT(numbers_of(images), ElementsAre(0, 51, 255, 1, 2, 3));
  }
  EXPECT_THAT(numbers_of(read_labels(compressed("labels.gz", two_labels_))), ElementsAre(7, 2));
}

TEST_F(Idx, SourceScalesPixelsToOne) {
  const auto source = open_idx({plain("images", two_images_)}, {plain("labels", two_labels_)});
  EXPECT_EQ(source->examples(), 2);
  EXPECT_EQ(source->features()[0], (Feature{"image", Shape{{"rows", 1}, {"cols", 3}}, DType::kFloat32}));
  EXPECT_EQ(source->features()[1], (Feature{"labels", Shape{}, DType::kInt32}));
  std::vector<float> image(9);
  std::vector<int32_t> labels(3);
  const std::vector<int64_t> rows = {1, 0, 1};
  source->read(rows, std::vector<FeatureSlice>{{reinterpret_cast<std::byte*>(image.data())},
                                               {reinterpret_cast<std::byte*>(labels.data())}});
  EXPECT_THAT(
      image, ElementsAre(1 / 255.0f, 2 / 255.0f, 3 / 255.0f, 0, 0.2f, 1, 1 / 255.0f, 2 / 255.0f, 3 / 255.0f));
  EXPECT_THAT(labels, ElementsAre(2, 7, 2));
}

TEST_F(Idx, SeveralFilesAreJoined) {
  const std::string more_images = plain("images2", idx({2051, 1, 1, 3}, "abc"));
  const std::string more_labels = plain("labels2", idx({2049, 1}, "\x04"));
  const auto source =
      open_idx({plain("images", two_images_), more_images}, {plain("labels", two_labels_), more_labels});
  EXPECT_EQ(source->examples(), 3);
  std::vector<float> image(3);
  int32_t label = 0;
  source->read(std::vector<int64_t>{2},
               std::vector<FeatureSlice>{{reinterpret_cast<std::byte*>(image.data())},
                                         {reinterpret_cast<std::byte*>(&label)}});
  EXPECT_EQ(image[0], 'a' / 255.0f);
  EXPECT_EQ(label, 4);
}

TEST_F(Idx, FilesHaveAnyRankAndType) {
  struct Case {
    uint32_t type;
    std::string number;  ///< big-endian, of -2 or 254
    float value;
  };
  for (const Case& c : {Case{8, "\xfe", 254 / 255.0f}, Case{9, "\xfe", -2}, Case{11, "\xff\xfe", -2},
                        Case{12, "\xff\xff\xff\xfe", -2}, Case{13, std::string("\xc0\0\0\0", 4), -2},
                        Case{14, std::string("\xc0\0\0\0\0\0\0\0", 8), -2}}) {
    const uint32_t magic = c.type << 8;
    const std::string path = plain("f", idx({magic + 4, 1, 1, 1, 1}, c.number));
    const auto source = open_idx({path}, {plain("l", idx({2049, 1}, "\1"))});
    EXPECT_EQ(testing::values_of<float>(*open_idx({path}, {}), "image", 0),
              testing::values_of<float>(*source, "image", 0));
    EXPECT_EQ(source->features()[0],
              (Feature{"image", Shape{{"rows", 1}, {"cols", 1}, {"channels", 1}}, DType::kFloat32}));
    float value = 0;
    int32_t label = 0;
    source->read(std::vector<int64_t>{0}, std::vector<FeatureSlice>{{reinterpret_cast<std::byte*>(&value)},
                                                                    {reinterpret_cast<std::byte*>(&label)}});
    EXPECT_EQ(value, c.value) << c.type;
    EXPECT_EQ(label, 1);
  }
}

TEST_F(Idx, DimensionsHaveTheNamesOfTheOption) {
  const std::string images = plain("images", two_images_), labels = plain("labels", two_labels_);
  const auto source = open_idx({images}, {labels}, {"height", "width"});
  EXPECT_EQ(source->features()[0].shape, (Shape{{"height", 1}, {"width", 3}}));
  EXPECT_THAT(failure([&] { open_idx({images}, {labels}, {"rows"}); }),
              AllOf(HasSubstr("`dimensions` has 1 name (rows)"), HasSubstr("are 1 x 3")));
  EXPECT_THAT(failure([&] { open_idx({images}, {labels}, {"rows", "rows"}); }), HasSubstr("two dimensions"));
  EXPECT_THAT(failure([&] { open_idx({images}, {labels}, {"rows", "batch"}); }), HasSubstr("`batch`"));
}

TEST_F(Idx, ClassesMayHaveNames) {
  const std::vector<std::string> images{plain("images", two_images_)}, labels{plain("labels", two_labels_)};
  EXPECT_TRUE(open_idx(images, labels)->class_names().empty());
  EXPECT_EQ(open_idx(images, labels, {}, {}, {"cat", "dog"})->class_names(),
            (std::vector<std::string>{"cat", "dog"}));
}

TEST_F(Idx, NamesAreThoseOfAllClassesOfTheModel) {
  const std::string images = plain("images", two_images_), labels = plain("labels", two_labels_);
  const auto source = open_idx({images}, {labels}, {}, {}, {"cat", "dog", "bird"});
  for (const int64_t classes : {2, 4})
    EXPECT_THAT(failure([&] { source->check_labels({classes}); }, ErrorKind::kConfig),
                HasSubstr("`class_names` has 3 names, and the model has " + std::to_string(classes)));
}

TEST_F(Idx, ClassesOfAModelHaveTheNamesOfItsTrainingData) {
  const std::string images = plain("images", two_images_), labels = plain("labels", two_labels_);
  const auto train = open_idx({images}, {labels}, {}, {}, {"cat", "dog"}),
             bare = open_idx({images}, {labels});
  const auto other = open_idx({images}, {labels}, {}, {}, {"a", "b"});
  EXPECT_EQ(names_of_classes(*bare, train->preparation()), train->class_names());
  EXPECT_EQ(names_of_classes(*other, train->preparation()), train->class_names());
  EXPECT_EQ(names_of_classes(*other, bare->preparation()), other->class_names());
}

TEST(NamedClasses, AreNumbersOnlyWhereARunSaysSo) {
  EXPECT_EQ(kept_classes(""), std::nullopt);
  EXPECT_EQ(kept_classes("{\"has_unanswerable\": true}"), std::nullopt);
  EXPECT_EQ(kept_classes(std::string(kNumberedClasses)), std::vector<std::string>());
  EXPECT_EQ(kept_classes(preparation_of({"a", "b"})), (std::vector<std::string>{"a", "b"}));
}

TEST(NamedClasses, AreComparedByNumberAndName) {
  const NamedClasses pets{"pets", {"cat", "dog", "bird"}}, turned{"turned", {"dog", "cat", "bird"}},
      wild{"wild", {"cat", "wolf", "bird"}}, more{"more", {"cat", "dog", "bird", "cow"}},
      numbers{"numbers", {}};
  EXPECT_EQ(class_difference(pets, pets), "");
  EXPECT_EQ(class_difference(pets, numbers), "");
  EXPECT_EQ(class_difference(pets, turned), "class 0 of pets is `cat`, and of turned it is `dog`");
  EXPECT_EQ(class_difference(pets, wild), "class 1 of pets is `dog`, and of wild it is `wolf`");
  EXPECT_EQ(class_difference(pets, more), "class 3 of pets is missing, and of more it is `cow`");
  EXPECT_TRUE(number_differently(pets, turned));
  for (const NamedClasses& other : {pets, wild, more, numbers})
    EXPECT_FALSE(number_differently(pets, other)) << other.of;
  // Numbers are the names beside those that are 0, 1, .. in an order of words.
  const NamedClasses digits{"digits", {"0", "1", "10", "2", "3", "4", "5", "6", "7", "8", "9"}},
      ratings{"ratings", {"1", "2", "3"}};
  EXPECT_EQ(class_difference(numbers, digits), "class 2 of numbers is `2`, and of digits it is `10`");
  EXPECT_TRUE(number_differently(digits, numbers));
  EXPECT_FALSE(number_differently(ratings, numbers));
  EXPECT_EQ(class_difference(ratings, numbers), "");
}

TEST_F(Idx, EachPixelMayHaveItsLabel) {
  const std::string images = plain("images", two_images_);
  const std::string labels = plain("labels", idx({(12 << 8) + 3, 2, 1, 3}, std::string(24, '\0')));
  const auto source = open_idx({images}, {labels});
  EXPECT_EQ(source->features()[1], (Feature{"labels", Shape{{"rows", 1}, {"cols", 3}}, DType::kInt32}));
  EXPECT_THAT(failure([&] {
                open_idx({images}, {plain("more", idx({(8 << 8) + 2, 2, 3}, "abcdef"))});
              }),
              AllOf(HasSubstr("labels of 3 for images of 1 x 3"), HasSubstr("for each of its pixels")));
}

TEST_F(Idx, WrongFilesAreErrorsThatSayWhatWasFound) {
  EXPECT_THAT(failure([&] { read_images((directory_ / "absent").string()); }), HasSubstr("No such file"));
  failure([&] { read_images(directory_.string()); });
  EXPECT_THAT(failure([&] { read_images(plain("f", "")); }), HasSubstr("ends within its header"));
  EXPECT_THAT(failure([&] { read_images(plain("f", "\0\0\x08")); }), HasSubstr("ends within its header"));
  EXPECT_THAT(failure([&] { read_images(plain("f", two_labels_)); }),
              AllOf(HasSubstr((directory_ / "f").string()), HasSubstr("2049: these are labels"),
                    HasSubstr("images begins with 2051")));
  EXPECT_THAT(failure([&] { read_labels(plain("f", "GIF89a..")); }), HasSubstr("begins with the number"));
  EXPECT_THAT(failure([&] { read_images(plain("f", two_images_.substr(0, 20))); }),
              AllOf(HasSubstr("4 bytes of data"), HasSubstr("2 images of 1 x 3 pixels")));
  EXPECT_THAT(failure([&] { read_labels(plain("f", two_labels_ + "x")); }),
              AllOf(HasSubstr("goes on after the 2 bytes"), HasSubstr("2 labels")));
  EXPECT_THAT(failure([&] { read_images(plain("f", idx({2051, 0, 28, 28}, ""))); }), HasSubstr("0 images"));
  EXPECT_THAT(failure([&] {
                read_images(plain("f", idx({2051, ~0u, ~0u, ~0u}, "x")));
              }),
              HasSubstr("4294967295 images"));
  EXPECT_THAT(failure([&] {
                read_images(plain("f", idx({2051, ~0u, 28, 28}, "x")));
              }),
              HasSubstr("1 bytes of data"));
}

TEST_F(Idx, DamagedCompressionIsAnError) {
  std::string pixels;  // incompressible, so that no part of the file is redundant
  for (uint32_t i = 0, x = 1; i < 300000; ++i)
    pixels += static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
  const std::string path = compressed("images.gz", idx({2051, 300, 10, 100}, pixels));
  EXPECT_EQ(read_images(path).bytes.size(), pixels.size());
  std::ifstream stream(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(stream), {});
  for (const size_t length : {bytes.size() / 2, bytes.size() - 1})
    EXPECT_THAT(failure([&] { read_images(plain("cut.gz", bytes.substr(0, length))); }),
                HasSubstr("cut off"));
  std::string flipped = bytes;
  flipped[bytes.size() / 2] ^= 1;
  EXPECT_THAT(failure([&] { read_images(plain("flipped.gz", flipped)); }), HasSubstr("damaged"));
}

TEST_F(Idx, ImagesAndLabelsMustBelongTogether) {
  const std::string images = plain("images", two_images_), labels = plain("labels", two_labels_);
  const std::string one_label = plain("one", idx({2049, 1}, "\1"));
  EXPECT_THAT(failure([&] { open_idx({images}, {one_label}); }),
              AllOf(HasSubstr(one_label), HasSubstr("1 labels for the 2 images of " + images)));
  const std::string wide = plain("wide", idx({2051, 2, 2, 1}, "abcd"));
  EXPECT_THAT(failure([&] {
                open_idx({images, wide}, {labels, labels});
              }),
              AllOf(HasSubstr(wide), HasSubstr("2 x 1"), HasSubstr("1 x 3")));
}

TEST_F(Idx, PixelsOf8BitsAreNotJoinedWithOtherNumbers) {
  const std::string images = plain("images", two_images_), labels = plain("labels", two_labels_);
  const std::string integers = plain("int8", idx({(9 << 8) + 3, 2, 1, 3}, "abcdef"));
  EXPECT_THAT(failure([&] {
                open_idx({images, integers}, {labels, labels});
              }),
              AllOf(HasSubstr(integers), HasSubstr("images of int8, but " + images + " has uint8")));
  const std::string wide_labels = plain("int16", idx({(11 << 8) + 1, 2}, std::string("\0\3\0\4", 4)));
  const auto source = open_idx({integers, integers}, {labels, wide_labels});
  EXPECT_THAT(testing::values_of<int32_t>(*source, "labels", 3), ElementsAre(4));
  EXPECT_THAT(testing::values_of<float>(*source, "image", 0), ElementsAre('a', 'b', 'c'));
}

TEST_F(Idx, LabelsOutOfRangeNameTheFileAndTheExample) {
  const std::string images = plain("images", two_images_), labels = plain("labels", two_labels_);
  const std::string high = plain("high", idx({2049, 2}, "\1\x0a"));
  const auto source = open_idx({images, images}, {labels, high});
  source->check_labels({11});
  EXPECT_THAT(
      failure([&] { source->check_labels({10}); }),
      AllOf(HasSubstr(high), HasSubstr("label 10 of example 1"), HasSubstr("11 classes in the model")));
  EXPECT_THAT(failure([&] { source->check_labels({7}); }), HasSubstr("label 7 of example 0"));
}

TEST(FashionMnist, HasItsKnownSizes) {
  const std::string folder = "/usr/share/datasets/fashion-mnist/";
  ASSERT_TRUE(std::filesystem::exists(folder)) << "tools/setup.sh installs the package dataset-fashion-mnist";
  const auto source =
      open_idx({folder + "t10k-images-idx3-ubyte.gz"}, {folder + "t10k-labels-idx1-ubyte.gz"});
  EXPECT_EQ(source->examples(), 10000);
  EXPECT_EQ(source->features()[0].shape, (Shape{{"rows", 28}, {"cols", 28}}));
  source->check_labels({10});
  EXPECT_THROW(source->check_labels({9}), Error);
}

}  // namespace
}  // namespace mtf
