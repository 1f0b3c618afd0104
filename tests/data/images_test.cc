#include "data/sources/images.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "data/images/decode.h"
#include "data/source_options.h"
#include "engine/config/load.h"
#include "tests/data/data_testing.h"
#include "tests/data/image_files.h"
#include "tests/support/failure.h"

namespace mtf::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

Image decode(const std::string& bytes, int64_t channels = 3, const ImageLimits& limits = {}) {
  static const std::string path = "a.file";
  return decode_image({path, std::as_bytes(std::span(bytes)), channels, limits});
}

/// The largest difference of a pixel.
int difference(const Image& a, const Image& b) {
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.cols, b.cols);
  EXPECT_EQ(a.pixels.size(), b.pixels.size());
  int most = a.pixels.size() == b.pixels.size() ? 0 : 256;
  for (size_t i = 0; i < a.pixels.size() && most < 256; ++i)
    most = std::max(most, std::abs(a.pixels[i] - b.pixels[i]));
  return most;
}

/// A picture without edges, which JPEG stores almost exactly; no two corners are alike.
Image gradient(int64_t rows, int64_t cols, int64_t channels = 3) {
  Image image{rows, cols, channels, {}};
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      for (int64_t k = 0; k < channels; ++k)
        image.pixels.push_back(static_cast<uint8_t>(20 + 4 * r + 2 * c + k));
  return image;
}

TEST(DecodePng, GivesThePixelsOfTheFile) {
  for (const int64_t channels : {1, 3}) {
    const Image image = pattern(7, 9, channels);
    for (const bool interlaced : {false, true})
      EXPECT_EQ(decode(png_file(image, interlaced), channels).pixels, image.pixels);
  }
}

TEST(DecodePng, GreyBecomesRgbAndRgbGrey) {
  const Image rgb = pattern(7, 9, 3), grey = pattern(7, 9, 1);
  EXPECT_EQ(decode(png_file(grey)).pixels[4], grey.pixels[1]);
  const Image made = decode(png_file(rgb), 1);  // as Pillow's convert("L")
  EXPECT_THAT(std::vector<uint8_t>(made.pixels.begin(), made.pixels.begin() + 9),
              ElementsAre(43, 134, 196, 60, 151, 213, 77, 168, 80));
}

TEST(DecodePng, SupportsPalettesBitsAndTransparency) {
  const std::vector<png_color> palette = {{1, 2, 3}, {40, 50, 60}, {70, 80, 90}, {255, 0, 7}};
  EXPECT_THAT(decode(png_file(1, 4, {PNG_COLOR_TYPE_PALETTE, 2, false, palette}, {0b00011011})).pixels,
              ElementsAre(1, 2, 3, 40, 50, 60, 70, 80, 90, 255, 0, 7));
  EXPECT_THAT(decode(png_file(1, 8, {PNG_COLOR_TYPE_GRAY, 1, false, {}}, {0b10110000}), 1).pixels,
              ElementsAre(255, 0, 255, 255, 0, 0, 0, 0));
  EXPECT_THAT(
      decode(png_file(1, 2, {PNG_COLOR_TYPE_GRAY, 16, false, {}}, {0x80, 0x80, 0xff, 0xff}), 1).pixels,
      ElementsAre(0x80, 0xff));
  EXPECT_THAT(decode(png_file(1, 1, {PNG_COLOR_TYPE_RGB_ALPHA, 8, false, {}}, {9, 8, 7, 0})).pixels,
              ElementsAre(9, 8, 7));
  EXPECT_THAT(decode(png_file(1, 1, {PNG_COLOR_TYPE_GRAY_ALPHA, 16, false, {}}, {9, 9, 0, 0})).pixels,
              ElementsAre(9, 9, 9));
}

TEST(DecodeJpeg, GivesAlmostThePixelsOfTheImage) {
  for (const bool progressive : {false, true}) {
    EXPECT_LE(difference(decode(jpeg_file(gradient(20, 30), 98, 0, progressive)), gradient(20, 30)), 3);
    EXPECT_LE(difference(decode(jpeg_file(gradient(20, 30, 1), 98, 0, progressive), 1), gradient(20, 30, 1)),
              3);
  }
  const Image rgb = decode(jpeg_file(gradient(20, 30, 1), 98));
  EXPECT_EQ(rgb.channels, 3);
  EXPECT_EQ(rgb.pixels[0], rgb.pixels[2]);
  EXPECT_LE(difference(decode(jpeg_file(gradient(20, 30), 98), 1), to_grey(gradient(20, 30))), 3);
}

TEST(DecodeJpeg, CmykBecomesRgb) {
  Image cmyk{8, 8, 4, {}};
  for (int i = 0; i < 64; ++i) {
    for (const int ink : {255, 200, 100, 255}) cmyk.pixels.push_back(static_cast<uint8_t>(ink));
  }
  const Image rgb = decode(jpeg_file(cmyk, 100));  // libjpeg writes the Adobe marker: inverted inks
  EXPECT_EQ(rgb.channels, 3);
  EXPECT_NEAR(rgb.pixels[0], 255, 3);
  EXPECT_NEAR(rgb.pixels[1], 200, 3);
  EXPECT_NEAR(rgb.pixels[2], 100, 3);
}

TEST(DecodeJpeg, IsTurnedAsExifSays) {
  const Image image = gradient(16, 24);
  // Corners of the result: where the upper left and the upper right corner of the file go.
  struct Case {
    int orientation;
    bool transposed, from_below, from_right;
  };
  for (const Case& c :
       {Case{1, false, false, false}, Case{2, false, false, true}, Case{3, false, true, true},
        Case{4, false, true, false}, Case{5, true, false, false}, Case{6, true, true, false},
        Case{7, true, true, true}, Case{8, true, false, true}, Case{9, false, false, false}}) {
    const Image result = decode(jpeg_file(image, 98, c.orientation));
    ASSERT_EQ(result.rows, c.transposed ? 24 : 16) << c.orientation;
    for (int64_t r = 0; r < result.rows; ++r) {
      for (int64_t col = 0; col < result.cols; ++col) {
        int64_t from_row = c.transposed ? col : r, from_col = c.transposed ? r : col;
        if (c.from_below) from_row = 15 - from_row;
        if (c.from_right) from_col = 23 - from_col;
        ASSERT_NEAR(result.row(r)[3 * col], image.row(from_row)[3 * from_col], 4) << c.orientation;
      }
    }
  }
}

/// The sum of all pixels times 1 .. 97, 1 .. 97, ...
int64_t weighted_sum(const Image& image) {
  int64_t sum = 0;
  for (size_t i = 0; i < image.pixels.size(); ++i) sum += image.pixels[i] * static_cast<int64_t>(i % 97 + 1);
  return sum;
}

TEST(Resize, IsThatOfPillow) {
  const Image image = pattern(7, 9, 3);
  const auto stretched = [&](int64_t rows, int64_t cols) {
    return resized(image, rows, cols, ResizeRule::kStretch);
  };
  EXPECT_EQ(weighted_sum(stretched(3, 4)), 86122);
  EXPECT_EQ(weighted_sum(stretched(10, 13)), 2460935);
  EXPECT_EQ(weighted_sum(stretched(2, 9)), 191016);
  EXPECT_EQ(weighted_sum(stretched(7, 3)), 261682);
  EXPECT_EQ(stretched(7, 9).pixels, image.pixels);
  EXPECT_THAT(resized(pattern(7, 9, 1), 3, 4, ResizeRule::kStretch).pixels,
              ElementsAre(104, 119, 121, 155, 133, 131, 135, 146, 133, 112, 120, 122));
  EXPECT_EQ(weighted_sum(resized(image, 4, 4, ResizeRule::kCrop)), 151907);  // of the columns 1 to 8
  // The part that is cut out begins and ends between two pixels: Pillow rounds where, and its length, to float32.
  EXPECT_EQ(weighted_sum(resized(pattern(64, 64, 3), 24, 10, ResizeRule::kCrop)), 4286532);
  EXPECT_EQ(weighted_sum(resized(pattern(40, 61, 3), 13, 48, ResizeRule::kCrop)), 11371898);
  EXPECT_EQ(weighted_sum(resized(pattern(61, 40, 3), 50, 24, ResizeRule::kCrop)), 22190693);
}

TEST(Resize, ImagesMayBeOfOneColumn) {
  for (const int64_t rows : {1, 2, 3, 5}) {
    for (const int64_t channels : {1, 3}) {
      const Image image{rows, 1, channels, std::vector<uint8_t>(static_cast<size_t>(rows * channels), 77)};
      for (const ResizeRule rule : {ResizeRule::kStretch, ResizeRule::kCrop})
        EXPECT_THAT(resized(image, 4, 6, rule).pixels, ::testing::Each(77));
    }
  }
}

TEST(Resize, PadKeepsTheShapeAndLeavesBlack) {
  const Image image{2, 4, 1, std::vector<uint8_t>(8, 200)};
  EXPECT_THAT(resized(image, 4, 4, ResizeRule::kPad).pixels,
              ElementsAre(0, 0, 0, 0, 200, 200, 200, 200, 200, 200, 200, 200, 0, 0, 0, 0));
  EXPECT_THAT(resized(image, 2, 2, ResizeRule::kPad).pixels, ElementsAre(200, 200, 0, 0));
  EXPECT_THAT(resized(image, 1, 1, ResizeRule::kCrop).pixels, ElementsAre(200));
}

TEST(DecodeImage, WhatIsNoImageIsRefused) {
  const auto refused = [](const std::string& bytes, const ImageLimits& limits = {}) {
    return failure([&] { decode(bytes, 3, limits); }, ErrorKind::kData);
  };
  const std::string png = png_file(pattern(20, 20, 3)), jpeg = jpeg_file(pattern(20, 20, 3));
  EXPECT_EQ(refused(png), "no error");
  EXPECT_THAT(refused(""), AllOf(HasSubstr("a.file"), HasSubstr("empty")));
  EXPECT_THAT(refused("GIF89a"), HasSubstr("this is a GIF file"));
  EXPECT_THAT(refused("text"), HasSubstr("neither as PNG nor as JPEG"));
  for (size_t length = 9; length < png.size(); length += 7)
    EXPECT_THAT(refused(png.substr(0, length)), HasSubstr("PNG file is damaged (the file is cut off)"))
        << length;
  for (size_t length = 3; length + 2 < jpeg.size(); length += 7)
    EXPECT_THAT(refused(jpeg.substr(0, length)), HasSubstr("JPEG file is damaged (Premature end")) << length;
  std::string flipped = png;
  flipped[png.size() / 2] = static_cast<char>(flipped[png.size() / 2] ^ 1);
  EXPECT_THAT(refused(flipped), HasSubstr("PNG file is damaged"));
  EXPECT_THAT(refused(png, {.pixels = 399}), AllOf(HasSubstr("20 x 20 pixels"), HasSubstr("`max_pixels`")));
  EXPECT_THAT(refused(jpeg, {.pixels = 399}), HasSubstr("more than 399 pixels"));
}

TEST(DecodeImage, ABombIsRefusedByItsHeader) {
  // A small file of 60,000 x 60,000 pixels.
  std::string png = png_file(pattern(1, 1, 1));
  png.replace(16, 8, std::string("\0\0\xea\x60\0\0\xea\x60", 8));
  const auto checksum = crc32(0, reinterpret_cast<const Bytef*>(png.data() + 12), 17);
  for (int i = 0; i < 4; ++i) png[29 + static_cast<size_t>(i)] = static_cast<char>(checksum >> (24 - 8 * i));
  EXPECT_THAT(failure([&] { decode(png); }),
              AllOf(HasSubstr("60000 x 60000"), HasSubstr("100,000,000 pixels")));
  std::string jpeg = jpeg_file(pattern(8, 8, 1));
  const size_t frame = jpeg.find("\xff\xc0");
  jpeg.replace(frame + 5, 4, "\xea\x60\xea\x60");
  EXPECT_THAT(failure([&] { decode(jpeg); }), HasSubstr("60000 x 60000"));
}

class Images : public FilesTest {
 protected:
  /// A folder with the classes cat (b.png, a.jpg) and dog (c.png, deep/d.png).
  std::string folder() const {
    file("pets/cat/b.png", png_file(pattern(6, 4, 3)));
    file("pets/cat/a.jpg", jpeg_file(gradient(5, 5)));
    file("pets/dog/c.PNG", png_file(pattern(4, 6, 1)));
    file("pets/dog/deep/d.png", png_file(pattern(8, 8, 3)));
    file("pets/dog/notes.txt", "no image");
    file("pets/.hidden/x.png", "no image");
    return path("pets");
  }
  SourceContext context() const {
    SourceContext context;
    context.cache = path("cache");
    return context;
  }
  /// Opens a list as the source does.
  std::unique_ptr<ImageSource> open(ImageList list, int64_t store_limit, int threads = 2,
                                    const ImageFormat& format = {.rows = 4, .cols = 4}) const {
    std::vector<std::string> paths;
    for (const LabelledImage& image : list.images) paths.push_back(image.path);
    auto pool = std::make_unique<WorkerPool>(threads);
    auto store = open_image_store(paths, format, store_limit, context(), *pool);
    return std::make_unique<ImageSource>(std::move(list), format, std::move(store), std::move(pool));
  }
};

std::vector<std::string> names_in(const ImageList& list) {
  std::vector<std::string> names;
  for (const LabelledImage& image : list.images)
    names.push_back(fmt::format("{}:{}", image.name, image.label));
  return names;
}

TEST_F(Images, SubfoldersAreTheClasses) {
  const ImageList list = images_in_folder(folder(), {});
  EXPECT_THAT(list.class_names, ElementsAre("cat", "dog"));
  EXPECT_THAT(names_in(list), ElementsAre("cat/a.jpg:0", "cat/b.png:0", "dog/c.PNG:1", "dog/deep/d.png:1"));
}

TEST_F(Images, OtherFilesArePassedOverAndCounted) {
  const std::string pets = folder();
  file("pets/classes.txt", "cat\ndog\n");
  file("pets/cat/x.gif", "no image");
  file("pets/cat/y.GIF", "no image");
  file("pets/dog/deep/README", "no image");
  const std::string expected =
      "4 files passed over, since images are .png, .jpg and .jpeg: 1 without ending, 2 .gif, 1 .txt";
  EXPECT_EQ(images_in_folder(pets, {}).others.to_string(), expected);
  EXPECT_EQ(images_without_labels({pets}).others.to_string(), expected);
}

TEST_F(Images, AnImageOfAnotherKindIsNoList) {
  const std::string gif = file("x.gif", std::string("GIF89a\x04\0\x04\0", 10));
  for (const auto& read : {std::function<void()>([&] { images_without_labels({gif}); }),
                           std::function<void()>([&] { images_in_list(gif, {}); })})
    EXPECT_THAT(failure(read, ErrorKind::kData),
                HasSubstr("x.gif is neither an image that can be read nor a list of images; a .png, .jpg"));
}

TEST_F(Images, ClassesTxtGivesTheOrder) {
  const std::string pets = folder();
  file("pets/classes.txt", "dog\r\nbird\ncat\n");
  const ImageList list = images_in_folder(pets, {});
  EXPECT_THAT(list.class_names, ElementsAre("dog", "bird", "cat"));
  EXPECT_EQ(list.images[0].label, 2);
  EXPECT_THAT(images_in_folder(pets, std::vector<std::string>{"cat", "dog"}).class_names,
              ElementsAre("cat", "dog"));
  EXPECT_EQ(images_in_folder(pets, std::vector<std::string>()).images[0].label, 2);
  file("pets/classes.txt", "dog\n");
  EXPECT_THAT(failure([&] { images_in_folder(pets, {}); }),
              AllOf(HasSubstr("pets/cat"), HasSubstr("no class `cat`")));
  file("pets/classes.txt", "dog\ndog\ncat\n");
  EXPECT_THAT(failure([&] { images_in_folder(pets, {}); }), HasSubstr("twice"));
}

TEST_F(Images, ClassesOfTrainedWeightsAreNotTakenFromOtherFolders) {
  Diagnostics diagnostics;
  const config::Node options = config::parse_yaml(
      fmt::format("{{type: images, path: {}, size: 4}}", folder()), "test.yaml", diagnostics);
  const auto source = config::parse<SourceChoice>(options, diagnostics);
  diagnostics.throw_if_errors();
  SourceContext evaluated = context();
  evaluated.prepares = false;
  EXPECT_THAT(failure([&] { source->open(evaluated); }, ErrorKind::kConfig),
              HasSubstr("the names of the classes of the training data are not known: no data.json"));
  evaluated.preparation = "{\"classes\": [\"dog\", \"cat\"]}";
  EXPECT_THAT(source->open(evaluated)->class_names(), ElementsAre("dog", "cat"));
  evaluated.preparation.reset();
  evaluated.labelled = false;
  EXPECT_EQ(source->open(evaluated)->examples(), 4);
  evaluated.labelled = true;
  file("pets/classes.txt", "dog\ncat\n");
  EXPECT_THAT(source->open(evaluated)->class_names(), ElementsAre("dog", "cat"));
}

TEST_F(Images, OtherImagesHaveTheNumbersOfTrainingDataWithoutNames) {
  const KnownClasses numbers = std::vector<std::string>();
  EXPECT_THAT(failure([&] { images_in_folder(folder(), numbers); }, ErrorKind::kData),
              AllOf(HasSubstr("pets/cat: `cat` is no whole number"),
                    HasSubstr("the number of a class, as in the training data")));
  for (const char* name : {"digits/2/a.png", "digits/10/b.png"}) file(name, png_file(pattern(4, 4, 3)));
  EXPECT_THAT(names_in(images_in_folder(path("digits"), numbers)), ElementsAre("10/b.png:10", "2/a.png:2"));
  EXPECT_TRUE(images_in_folder(path("digits"), numbers).class_names.empty());
  EXPECT_THAT(names_in(images_in_folder(path("digits"), {})), ElementsAre("10/b.png:0", "2/a.png:1"));
  const std::string list = file("list.csv", "pets/cat/b.png,3\npets/cat/a.jpg,-1\n");
  EXPECT_THAT(failure([&] { images_in_list(list, numbers); }, ErrorKind::kData),
              HasSubstr("list.csv:2: `-1` is no whole number"));
}

TEST_F(Images, NumbersOfNoClassDoNotMakeNamesOfTheOthers) {
  folder();
  for (const char* odd : {"-1", "1.0", "nan"}) {
    const std::string list =
        file("list.csv", fmt::format("pets/cat/b.png,3\npets/cat/a.jpg,{}\npets/dog/c.PNG,2\n", odd));
    EXPECT_THAT(
        failure([&] { images_in_list(list, {}); }, ErrorKind::kData),
        HasSubstr(fmt::format("list.csv:2: `{}` is not the number of a class, but other labels are", odd)));
  }
  const std::string words = file("words.csv", "pets/cat/b.png,3\npets/cat/a.jpg,-1\npets/dog/c.PNG,other\n");
  EXPECT_THAT(images_in_list(words, {}).class_names, ElementsAre("-1", "3", "other"));
}

TEST_F(Images, FoldersWithoutImagesAreErrors) {
  std::filesystem::create_directories(path("empty"));
  EXPECT_THAT(failure([&] { images_in_folder(path("empty"), {}); }), HasSubstr("no subfolders"));
  std::filesystem::create_directories(path("empty/cat"));
  EXPECT_THAT(failure([&] { images_in_folder(path("empty"), {}); }), HasSubstr("empty/cat has no images"));
}

TEST_F(Images, LinksToNothingAreErrors) {
  const std::string pets = folder();
  std::filesystem::create_symlink(pets + "/cat/b.png", pets + "/dog/link.png");
  EXPECT_EQ(images_in_folder(pets, {}).images.size(), 5u);
  std::filesystem::create_symlink("/nowhere/y.png", pets + "/dog/y.png");
  EXPECT_THAT(failure([&] { images_in_folder(pets, {}); }, ErrorKind::kData),
              HasSubstr("pets/dog/y.png is a link to a file that is not there; links to images"));
  std::filesystem::create_symlink("/nowhere/x.png", pets + "/dog/deep/x.png");
  EXPECT_THAT(failure([&] { images_without_labels({pets}); }, ErrorKind::kData),
              HasSubstr("pets/dog/deep/x.png is a link to a file that is not there, one of 2 such links"));
}

TEST_F(Images, ListsNameFilesAndLabels) {
  folder();
  const std::string words = file("words.csv", "pets/dog/c.PNG,dog\n\"pets/cat/a.jpg\",cat,extra\n");
  EXPECT_THAT(names_in(images_in_list(words, {})), ElementsAre("pets/dog/c.PNG:1", "pets/cat/a.jpg:0"));
  EXPECT_THAT(images_in_list(words, {}).class_names, ElementsAre("cat", "dog"));
  const std::string numbers = file("numbers.tsv", "label\tx\tfilename\n3\t1\tpets/cat/b.png\n");
  EXPECT_THAT(names_in(images_in_list(numbers, {})), ElementsAre("pets/cat/b.png:3"));
  EXPECT_TRUE(images_in_list(numbers, {}).class_names.empty());
  EXPECT_THAT(names_in(images_in_list(words, std::vector<std::string>{"dog", "cat"})),
              ElementsAre("pets/dog/c.PNG:0", "pets/cat/a.jpg:1"));
  const auto refused = [&](const std::string& text, const KnownClasses& known = {}) {
    return failure([&] { images_in_list(file("bad.csv", text), known); }, ErrorKind::kData);
  };
  EXPECT_THAT(refused("pets/cat/b.png,1\npets/cat/x.png,2\n"),
              AllOf(HasSubstr("bad.csv:2"), HasSubstr("no file")));
  EXPECT_THAT(refused("pets/cat/b.png\n"), AllOf(HasSubstr("bad.csv:1"), HasSubstr("1 value")));
  EXPECT_THAT(refused("pets/cat/b.png,\n"), HasSubstr("missing"));
  EXPECT_THAT(refused(""), HasSubstr("names no images"));
  EXPECT_THAT(refused("pets/cat/b.png,bird\n", std::vector<std::string>{"cat"}),
              AllOf(HasSubstr("bad.csv:1"), HasSubstr("`bird`")));
}

TEST_F(Images, NamesOfClassesMustBeUtf8) {
  file("colors/Gr\xf6n/a.png", png_file(pattern(4, 4, 3)));
  file("colors/Gr\xe4n/b.png", png_file(pattern(4, 4, 3)));
  EXPECT_THAT(failure([&] { images_in_folder(path("colors"), {}); }, ErrorKind::kData),
              AllOf(HasSubstr("colors: class `Gr\\xe4n`: no UTF-8: byte \\xe4 after 2 characters"),
                    HasSubstr("rename the subfolder")));
  const std::string pets = folder();
  file("pets/classes.txt", "dog\nk\xe4tzchen\n");
  EXPECT_THAT(failure([&] { images_in_folder(pets, {}); }),
              AllOf(HasSubstr("classes.txt:2: class `k\\xe4tzchen`"), HasSubstr("iconv")));
  const std::string list = file("list.csv", "pets/cat/b.png,cat\npets/cat/a.jpg,k\xe4tzchen\n");
  EXPECT_THAT(failure([&] { images_in_list(list, {}); }), HasSubstr("list.csv:2: class `k\\xe4tzchen`"));
}

TEST_F(Images, WithoutLabelsComeFromAnyFolderListOrFile) {
  const std::string pets = folder();
  const auto names = [](const std::string& path) {
    std::vector<std::string> result;
    for (const LabelledImage& image : images_without_labels({path}).images) result.push_back(image.name);
    return result;
  };
  EXPECT_THAT(names(pets), ElementsAre("cat/a.jpg", "cat/b.png", "dog/c.PNG", "dog/deep/d.png"));
  EXPECT_THAT(names(pets + "/cat"), ElementsAre("a.jpg", "b.png"));
  EXPECT_THAT(names(pets + "/cat/a.jpg"), ElementsAre(pets + "/cat/a.jpg"));
  EXPECT_THAT(names(file("list.csv", "filename\npets/cat/b.png\n")), ElementsAre("pets/cat/b.png"));
  EXPECT_THAT(names(file("plain.txt", "pets/cat/b.png\n")), ElementsAre("pets/cat/b.png"));
  std::filesystem::create_directories(path("none"));
  EXPECT_THAT(failure([&] { images_without_labels({path("none")}); }), HasSubstr("none has no images"));
  EXPECT_THAT(failure([&] { images_without_labels({path("x.png")}); }), HasSubstr("there is no file"));
  const auto source = open(images_without_labels({pets}), 0, 1);
  EXPECT_EQ(source->features().size(), 1u);
  EXPECT_EQ(source->example_name(1), "cat/b.png");
  EXPECT_EQ(values_of<float>(*source, "image", 0),
            values_of<float>(*open(images_in_folder(pets, {}), 0, 1), "image", 0));
}

TEST_F(Images, AreTheSameFromTheStoreAndDecodedAsTheyCome) {
  const ImageList list = images_in_folder(folder(), {});
  const auto stored = open(list, 1 << 20), again = open(list, 1 << 20), decoded = open(list, 0, 3);
  EXPECT_TRUE(stored->has_store());
  EXPECT_TRUE(again->has_store());
  EXPECT_FALSE(decoded->has_store());
  EXPECT_EQ(stored->features()[0],
            (Feature{"image", {{"rows", 4}, {"cols", 4}, {"channels", 3}}, DType::kFloat32}));
  EXPECT_THAT(stored->class_names(), ElementsAre("cat", "dog"));
  for (int64_t i = 0; i < 4; ++i) {
    const std::vector<float> image = values_of<float>(*stored, "image", i);
    EXPECT_EQ(values_of<float>(*decoded, "image", i), image);
    EXPECT_EQ(values_of<float>(*again, "image", i), image);
    const Image expected = load_image(list.images[static_cast<size_t>(i)].path, {.rows = 4, .cols = 4});
    for (size_t p = 0; p < image.size(); ++p)
      ASSERT_EQ(image[p], static_cast<float>(expected.pixels[p]) / 255.0f);
    EXPECT_EQ(values_of<int32_t>(*stored, "labels", i)[0], i / 2);
  }
  for (const auto* source : {stored.get(), decoded.get()}) {
    EXPECT_TRUE(source->has_bytes(0));
    EXPECT_FALSE(source->has_bytes(1));
    expect_boxes_of_the_whole(*source, 0);
  }
}

TEST_F(Images, OfABatchAreInTheirOrderWithAnyNumberOfThreads) {
  const ImageList list = images_in_folder(folder(), {});
  const std::vector<int64_t> rows = {3, 0, 0, 2, 1, 3, 2};
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 5}) {
    std::vector<float>& image = results.emplace_back(rows.size() * 48);
    std::vector<int32_t> labels(rows.size());
    open(list, 0, threads)
        ->read(rows, std::vector<FeatureSlice>{{reinterpret_cast<std::byte*>(image.data())},
                                               {reinterpret_cast<std::byte*>(labels.data())}});
    EXPECT_THAT(labels, ElementsAre(1, 0, 0, 1, 0, 1, 1));
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

TEST_F(Images, AChangedFileMakesAnotherStore) {
  const ImageList list = images_in_folder(folder(), {});
  const std::vector<float> before = values_of<float>(*open(list, 1 << 20), "image", 1);
  file("pets/cat/b.png", png_file(pattern(9, 9, 3)));
  EXPECT_NE(values_of<float>(*open(list, 1 << 20), "image", 1), before);
}

TEST_F(Images, TheStoreThatDoesNotFitIsNotMade) {
  const ImageList list = images_in_folder(folder(), {});
  EXPECT_FALSE(open(list, 4 * 48 - 1)->has_store());
  EXPECT_TRUE(open(list, 4 * 48)->has_store());
}

TEST_F(Images, ADamagedStoreIsMadeAgain) {
  const ImageList list = images_in_folder(folder(), {});
  const std::vector<float> image = values_of<float>(*open(list, 1 << 20), "image", 0);
  const std::string store = std::filesystem::directory_iterator(path("cache"))->path().string();
  const auto size = std::filesystem::file_size(store);
  file("cache/" + std::filesystem::path(store).filename().string(), "rubbish");
  EXPECT_EQ(values_of<float>(*open(list, 1 << 20), "image", 0), image);
  std::filesystem::resize_file(store, size - 1);
  EXPECT_EQ(values_of<float>(*open(list, 1 << 20), "image", 0), image);
  EXPECT_EQ(std::filesystem::file_size(store), size);
}

TEST_F(Images, TheFingerprintIsThatOfFilesNamesAndLabels) {
  ImageList list = images_in_folder(folder(), {});
  const std::string before = open(list, 1 << 20)->fingerprint();
  EXPECT_EQ(open(list, 0)->fingerprint(), before) << "without a store";
  std::swap(list.images.front().label, list.images.back().label);
  EXPECT_NE(open(list, 0)->fingerprint(), before);
  std::swap(list.images.front().label, list.images.back().label);
  file("pets/cat/b.png", png_file(pattern(4, 4, 3)));
  EXPECT_NE(open(list, 0)->fingerprint(), before);
}

TEST_F(Images, WhatAKilledProcessHasLeftOfAStoreIsRemoved) {
  const ImageList list = images_in_folder(folder(), {});
  open(list, 1 << 20);
  const std::string store = std::filesystem::directory_iterator(path("cache"))->path().string();
  namespace fs = std::filesystem;
  fs::rename(store, store + ".partial-1");
  fs::last_write_time(store + ".partial-1", fs::file_time_type::clock::now() - std::chrono::hours(2));
  file("cache/" + fs::path(store).filename().string() + ".partial-2", "being written");
  file("cache/images-of_another.pixels.partial-1", "in use");
  open(list, 1 << 20);
  EXPECT_TRUE(std::filesystem::exists(store));
  EXPECT_FALSE(std::filesystem::exists(store + ".partial-1"));
  EXPECT_TRUE(std::filesystem::exists(store + ".partial-2"));
  EXPECT_TRUE(std::filesystem::exists(path("cache/images-of_another.pixels.partial-1")));
}

TEST_F(Images, ASignalRemovesTheUnfinishedStore) {
  const ImageList list = images_in_folder(folder(), {});
  std::vector<std::string> paths;
  for (const LabelledImage& image : list.images) paths.push_back(image.path);
  const auto interrupted = [&] {
    std::signal(SIGINT, SIG_DFL);  // whoever runs the tests may ignore it
    SourceContext interrupting = context();
    interrupting.progress = [&](std::string_view, int64_t, int64_t) {
      const auto entry = std::filesystem::directory_iterator(path("cache"));
      if (std::distance(begin(entry), end(entry)) != 2) std::abort();  // the store and its lock
      std::raise(SIGINT);
    };
    WorkerPool pool(1);
    open_image_store(paths, {.rows = 4, .cols = 4}, 1 << 20, interrupting, pool);
  };
  EXPECT_EXIT(interrupted(), ::testing::KilledBySignal(SIGINT), "");
  for (const auto& entry : std::filesystem::directory_iterator(path("cache")))
    EXPECT_EQ(entry.path().extension(), ".lock") << entry.path();
}

TEST_F(Images, ADamagedFileIsNamed) {
  ImageList list = images_in_folder(folder(), {});
  file("pets/cat/b.png", png_file(pattern(6, 4, 3)).substr(0, 50));
  EXPECT_THAT(failure([&] { open(list, 1 << 20); }, ErrorKind::kData),
              HasSubstr("pets/cat/b.png: the PNG file"));
  EXPECT_TRUE(std::filesystem::is_empty(path("cache")));
  const auto source = open(list, 0);
  EXPECT_THAT(failure([&] { values_of<float>(*source, "image", 1); }),
              HasSubstr("pets/cat/b.png: the PNG file"));
  EXPECT_THAT(failure([&] { source->check_labels({1}); }),
              AllOf(HasSubstr("label 1 (`dog`)"), HasSubstr("c.PNG")));
}

}  // namespace
}  // namespace mtf::testing
