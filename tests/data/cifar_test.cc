#include "data/sources/cifar.h"

#include <gmock/gmock.h>

#include "tests/data/data_testing.h"
#include "tests/support/failure.h"

namespace mtf::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Returns a record with these labels; pixel (row, col) of the red, green and blue plane is row, col and 7.
std::string record(const std::string& labels) {
  std::string bytes = labels;
  for (int plane = 0; plane < 3; ++plane)
    for (int row = 0; row < 32; ++row)
      for (int col = 0; col < 32; ++col) bytes += static_cast<char>(plane == 0 ? row : plane == 1 ? col : 7);
  return bytes;
}

class Cifar : public FilesTest {};

TEST_F(Cifar, PlanesBecomeChannels) {
  const std::string first = file("data_batch_1.bin", record("\3") + record("\7"));
  const std::string second = compressed("data_batch_2.bin.gz", record("\1"));
  file("batches.meta.txt", "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
  const auto source = open_cifar({first, second}, CifarLabels::kFine);
  EXPECT_EQ(source->examples(), 3);
  EXPECT_EQ(source->features(), cifar_features());
  EXPECT_EQ(source->class_names().size(), 10u);
  EXPECT_EQ(source->class_names()[3], "cat");
  const std::vector<float> image = values_of<float>(*source, "image", 2);
  for (int row = 0; row < 32; ++row) {
    for (int col = 0; col < 32; ++col) {
      const float* pixel = &image[static_cast<size_t>(3 * (32 * row + col))];
      ASSERT_EQ(pixel[0], static_cast<float>(row) / 255.0f);
      ASSERT_EQ(pixel[1], static_cast<float>(col) / 255.0f);
      ASSERT_EQ(pixel[2], 7 / 255.0f);
    }
  }
  EXPECT_THAT(values_of<int32_t>(*source, "labels", 1), ElementsAre(7));
  EXPECT_THAT(values_of<int32_t>(*source, "labels", 2), ElementsAre(1));
  expect_boxes_of_the_whole(*source, 0);
}

TEST_F(Cifar, FilesOf100ClassesHaveFineAndCoarseLabels) {
  const std::string path = file("train.bin", record("\x13\x63") + record("\1\2"));
  EXPECT_THAT(values_of<int32_t>(*open_cifar({path}, CifarLabels::kFine), "labels", 0), ElementsAre(99));
  EXPECT_THAT(values_of<int32_t>(*open_cifar({path}, CifarLabels::kCoarse), "labels", 0), ElementsAre(19));
  EXPECT_EQ(values_of<float>(*open_cifar({path}, CifarLabels::kFine), "image", 0)[96], 1 / 255.0f);
}

TEST_F(Cifar, OtherFilesAreRefused) {
  const auto refused = [](const std::string& path, CifarLabels labels = CifarLabels::kFine) {
    return failure([&] { open_cifar({path}, labels); }, ErrorKind::kData);
  };
  EXPECT_THAT(refused(file("cut", record("\3").substr(1))),
              AllOf(HasSubstr("3072 bytes"), HasSubstr("3073 bytes")));
  EXPECT_THAT(refused(file("empty", "")), HasSubstr("0 bytes"));
  EXPECT_THAT(refused(file("labels", record("\x0b"))), HasSubstr("labels above its classes"));
  EXPECT_THAT(refused(file("ten", record("\1")), CifarLabels::kCoarse), HasSubstr("no coarse labels"));
  const std::string ten = file("ten", record("\1")), hundred = file("hundred", record("\1\2"));
  EXPECT_THAT(failure([&] {
                open_cifar({ten, hundred}, CifarLabels::kFine);
              }),
              AllOf(HasSubstr(hundred), HasSubstr("CIFAR-100"), HasSubstr("is one of CIFAR-10")));
}

}  // namespace
}  // namespace mtf::testing
