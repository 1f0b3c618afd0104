// Tests augmentations by their values on small images.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "data/augment/augmentation.h"
#include "data/augment/colors.h"
#include "data/augment/resample.h"
#include "data/augment/warp.h"
#include "engine/config/load.h"
#include "engine/config/schema.h"

namespace mtf {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

Augmentations augmentations(const std::string& yaml) {
  Diagnostics diagnostics;
  auto list = config::parse<Augmentations>(config::parse_yaml(yaml, "a.yaml", diagnostics), diagnostics,
                                           "data.augment");
  diagnostics.throw_if_errors();
  return list;
}

std::string mistake_in(const std::string& yaml) {
  try {
    augmentations(yaml);
  } catch (const Error& error) {
    return error.what();
  }
  return "no mistake";
}

/// Number i of the image is (i * 37 mod 101) / 100.
std::vector<float> some_image(const ImageShape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 37 % 101) / 100;
  return values;
}

struct Result {
  ImageShape shape;
  std::vector<float> values;
};

Draws draws_of(int64_t example) { return {random_key("test", 1), example, 0}; }

/// Applies a list of augmentations to one example.
Result apply(const std::string& yaml, const ImageShape& shape, const std::vector<float>& values,
             int64_t example = 0) {
  FloatImage image(64 * 64 * 3);
  image.shape = shape;
  std::ranges::copy(values, image.pixels());
  for (const auto& augmentation : augmentations(yaml)) {
    Draws draws = draws_of(example);
    const ImageShape expected = augmentation.choice->result(image.shape, {});
    augmentation.choice->apply(image, draws);
    EXPECT_EQ(image.shape.rows, expected.rows);
    EXPECT_EQ(image.shape.cols, expected.cols);
    image.shape = expected;
  }
  return {image.shape, {image.pixels(), image.pixels() + image.shape.size()}};
}

std::vector<float> values_after(const std::string& yaml, const ImageShape& shape,
                                const std::vector<float>& values, int64_t example = 0) {
  return apply(yaml, shape, values, example).values;
}

/// Applies one of the functions on images.
template <class Change>
std::vector<float> changed(const ImageShape& shape, const std::vector<float>& values, const Change& change) {
  FloatImage image(shape.size());
  image.shape = shape;
  std::ranges::copy(values, image.pixels());
  change(image);
  return {image.pixels(), image.pixels() + image.shape.size()};
}

const ImageShape kColored{5, 4, 3}, kGrey{2, 3, 1};
const std::vector<float> kSix = {1, 2, 3, 4, 5, 6};

TEST(Draws, AreUniformAndBetaDistributed) {
  constexpr int kCount = 20000;
  for (const double alpha : {0.2, 1.0, 8.0}) {
    double sum = 0, squares = 0;
    for (int i = 0; i < kCount; ++i) {
      const double x = draws_of(i).beta(alpha);
      ASSERT_TRUE(x >= 0 && x <= 1);
      sum += x;
      squares += (x - 0.5) * (x - 0.5);
    }
    EXPECT_NEAR(sum / kCount, 0.5, 0.01) << alpha;
    EXPECT_NEAR(squares / kCount, 1 / (4 * (2 * alpha + 1)), 0.005) << alpha;
  }
  std::array<int, 7> counts{};
  for (int i = 0; i < kCount; ++i) ++counts[static_cast<size_t>(draws_of(i).below(7))];
  for (const int count : counts) EXPECT_NEAR(count, kCount / 7.0, 250);
}

TEST(Draws, DifferByExampleEpochAndKey) {
  std::set<uint32_t> seen;
  for (const char* name : {"a", "b"}) {
    for (int64_t example = 0; example < 10; ++example) {
      for (int64_t epoch = 0; epoch < 10; ++epoch) {
        Draws draws(random_key(name, 1), example, epoch);
        for (int i = 0; i < 10; ++i) seen.insert(draws.bits());
      }
    }
  }
  EXPECT_EQ(seen.size(), 2000u);
}

TEST(Augmentations, AreWrittenAsLayersAre) {
  const Augmentations list = augmentations("[flip, {flip: rows}, {crop: {padding: 4}}, {cutout: [2, 3]}]");
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(
      config::to_flow_yaml(config::dump(list)),
      "[{flip: {along: cols, probability: 0.5}}, {flip: {along: rows, probability: 0.5}}, {crop: {size: "
      "[], padding: 4}}, {cutout: {size: [2, 3], holes: 1}}]");
  EXPECT_EQ(config::to_flow_yaml(config::dump(augmentations(config::to_yaml(config::dump(list))))),
            config::to_flow_yaml(config::dump(list)));
  EXPECT_EQ(augmentations("rotate: 10").size(), 1u);
}

TEST(Augmentations, EntriesThatCannotBeReadAreLeftOut) {
  Diagnostics diagnostics;
  const auto list = config::parse<Augmentations>(
      config::parse_yaml("[flipp, flip, 3]", "a.yaml", diagnostics), diagnostics, "data.augment");
  EXPECT_EQ(diagnostics.errors().size(), 2u);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].choice.type(), "flip");
}

TEST(Augmentations, MistakesNameThePlace) {
  EXPECT_THAT(mistake_in("[flipp]"),
              HasSubstr("a.yaml:1:2: unknown type `flipp` of `data.augment.0`; did you mean `flip`?"));
  EXPECT_THAT(mistake_in("[{random_crop: 4}]"), HasSubstr("`crop`"));
  EXPECT_THAT(mistake_in("[{flip: {allong: cols}}]"),
              HasSubstr("unknown key `data.augment.0.flip.allong`; did you mean"));
  EXPECT_THAT(mistake_in("[{flip: horizontal}]"), HasSubstr("`cols`"));
  EXPECT_THAT(mistake_in("[{flip: cols, crop: 3}]"), HasSubstr("`data.augment.0` has 2 keys; one name"));
  EXPECT_THAT(mistake_in("[{type: flip}]"), HasSubstr("its options stand below its name: `flip: {...}`"));
  EXPECT_THAT(mistake_in("[3]"), HasSubstr("`data.augment.0` must be a name with its options"));
  EXPECT_THAT(mistake_in("[crop]"), HasSubstr("changes nothing"));
  EXPECT_THAT(mistake_in("[cutout]"), HasSubstr("`data.augment.0.cutout.size` is missing"));
  EXPECT_THAT(mistake_in("[{cutout: [1, 2, 3]}]"), HasSubstr("`size` has 3 numbers"));
  EXPECT_THAT(mistake_in("[{random_resized_crop: {size: 4, area: [0.5, 0.2]}}]"),
              HasSubstr("`area` is from 0.5 to 0.2"));
}

TEST(Augmentations, MistakesOfImagesSayWhatWouldFit) {
  const auto refusal = [](const std::string& yaml, const ImageShape& shape) -> std::string {
    try {
      ImageShape made = shape;
      for (const auto& augmentation : augmentations(yaml))
        made = augmentation.choice->result(made, augmentation.mark);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(refusal("[{crop: {size: 8, padding: 1}}]", kColored),
              HasSubstr("a.yaml:1:2: `crop` makes 8 x 8 pixels of images of 5 x 4 with a padding of 1"));
  EXPECT_THAT(refusal("[{center_crop: 5}]", kColored),
              HasSubstr("`center_crop` makes 5 x 5 pixels of images of 5 x 4"));
  EXPECT_THAT(refusal("[{color_jitter: {hue: 0.1}}]", kGrey),
              HasSubstr("`color_jitter` changes `hue`, and images of 1 channel have none"));
  EXPECT_EQ(refusal("[{color_jitter: {contrast: 0.1}}]", kGrey), "none");
  EXPECT_THAT(refusal("[{normalize: {mean: [0.1, 0.2]}}]", kColored),
              HasSubstr("`normalize` has 2 numbers as `mean`, and the images have 3 channels"));
  EXPECT_THAT(refusal("[normalize, rand_augment]", kColored), HasSubstr("`rand_augment` before `normalize`"));
}

TEST(Flip, TwiceIsNothing) {
  const std::vector<float> image = some_image(kColored);
  for (const char* along : {"rows", "cols"}) {
    const std::string flip = fmt::format("{{flip: {{along: {}, probability: 1}}}}", along);
    EXPECT_NE(values_after("[" + flip + "]", kColored, image), image);
    EXPECT_EQ(values_after("[" + flip + ", " + flip + "]", kColored, image), image);
  }
  EXPECT_THAT(values_after("[{flip: {along: cols, probability: 1}}]", kGrey, kSix),
              ElementsAre(3, 2, 1, 6, 5, 4));
  EXPECT_THAT(values_after("[{flip: {along: rows, probability: 1}}]", kGrey, kSix),
              ElementsAre(4, 5, 6, 1, 2, 3));
  EXPECT_EQ(values_after("[{flip: {probability: 0}}]", kColored, image), image);
}

TEST(Flip, HappensAsOftenAsItsProbabilitySays) {
  int flips = 0;
  for (int64_t example = 0; example < 4000; ++example)
    flips += values_after("[{flip: {probability: 0.3}}]", kGrey, kSix, example)[0] == 3;
  EXPECT_NEAR(flips, 1200, 100);
}

TEST(Crop, OffsetsCoverAll) {
  const ImageShape shape{3, 4, 1};
  std::vector<float> image(12);
  std::iota(image.begin(), image.end(), 1.0f);
  std::set<std::vector<float>> seen;
  for (int64_t example = 0; example < 500; ++example) {
    const Result result = apply("[{crop: {padding: 1}}]", shape, image, example);
    EXPECT_EQ(result.shape, shape);
    seen.insert(result.values);
  }
  EXPECT_EQ(seen.size(), 9u);
  EXPECT_TRUE(seen.contains(image));
  EXPECT_TRUE(seen.contains({0, 0, 0, 0, 0, 1, 2, 3, 0, 5, 6, 7}));
  EXPECT_TRUE(seen.contains({6, 7, 8, 0, 10, 11, 12, 0, 0, 0, 0, 0}));
  seen.clear();
  for (int64_t example = 0; example < 500; ++example)
    seen.insert(values_after("[{crop: [2, 3]}]", shape, image, example));
  EXPECT_EQ(seen, (std::set<std::vector<float>>{
                      {1, 2, 3, 5, 6, 7}, {2, 3, 4, 6, 7, 8}, {5, 6, 7, 9, 10, 11}, {6, 7, 8, 10, 11, 12}}));
}

TEST(CenterCrop, IsTheMiddle) {
  std::vector<float> image(16);
  std::iota(image.begin(), image.end(), 0.0f);
  EXPECT_THAT(values_after("[{center_crop: 2}]", {4, 4, 1}, image), ElementsAre(5, 6, 9, 10));
  EXPECT_EQ(values_after("[{center_crop: 4}]", {4, 4, 1}, image), image);
}

TEST(Resize, ScalesTheImage) {
  const std::vector<float> image = {0, 0, 4, 4, 0, 0, 4, 4};
  EXPECT_THAT(values_after("[{resize: {size: [1, 2], rule: stretch}}]", {2, 4, 1}, image),
              Pointwise(FloatNear(0.6f), {0.f, 4.f}));
  EXPECT_EQ(apply("[{resize: 8}]", {2, 4, 1}, image).shape, (ImageShape{8, 8, 1}));
  EXPECT_THAT(values_after("[{resize: {size: 4, rule: pad}}]", {2, 4, 1}, image),
              ElementsAre(0, 0, 0, 0, 0, 0, 4, 4, 0, 0, 4, 4, 0, 0, 0, 0));
  const std::vector<float> even(kColored.size(), 0.25f);
  for (const char* rule : {"crop", "stretch"})
    EXPECT_THAT(values_after(fmt::format("[{{resize: {{size: [7, 3], rule: {}}}}}]", rule), kColored, even),
                Each(FloatNear(0.25f, 1e-6f)));
  EXPECT_EQ(values_after("[{resize: [5, 4]}]", kColored, even), even);
}

TEST(RandomResizedCrop, IsAPartOfTheImage) {
  const ImageShape shape{20, 30, 3};
  std::vector<float> ramp;
  for (int64_t r = 0; r < 20; ++r)
    for (int64_t c = 0; c < 30; ++c)
      for (int64_t k = 0; k < 3; ++k) ramp.push_back(static_cast<float>(k == 0 ? r : k == 1 ? c : 1));
  double least = 1, most = 0;
  for (int64_t example = 0; example < 300; ++example) {
    const Result result =
        apply("[{random_resized_crop: {size: [10, 12], area: [0.1, 0.5]}}]", shape, ramp, example);
    ASSERT_EQ(result.shape, (ImageShape{10, 12, 3}));
    const auto at = [&](int64_t r, int64_t c, int64_t k) {
      return result.values[static_cast<size_t>((r * 12 + c) * 3 + k)];
    };
    EXPECT_NEAR(at(3, 3, 2), 1, 1e-5);
    // Rows and columns of the ramp tell the scale, at pixels away from the edges.
    const double rows = (at(7, 5, 0) - at(2, 5, 0)) / 5.0 * 10, cols = (at(5, 8, 1) - at(5, 3, 1)) / 5.0 * 12;
    least = std::min(least, rows * cols / 600);
    most = std::max(most, rows * cols / 600);
    EXPECT_GT(cols / rows, 0.67);
    EXPECT_LT(cols / rows, 1.5);
  }
  EXPECT_NEAR(least, 0.1, 0.03);
  EXPECT_NEAR(most, 0.5, 0.03);
}

TEST(RandomResizedCrop, TakesTheMiddleWhereNoShapeFits) {
  const ImageShape shape{2, 40, 1};
  const std::vector<float> even(80, 0.5f);
  EXPECT_THAT(values_after("[{random_resized_crop: {size: 4, area: [1, 1]}}]", shape, even),
              Each(FloatNear(0.5f, 1e-6f)));
}

TEST(Rotate, ByNothingIsNothing) {
  const std::vector<float> image = some_image(kColored);
  EXPECT_EQ(values_after("[{rotate: 0}]", kColored, image), image);
  EXPECT_EQ(values_after("[affine]", kColored, image), image);
}

TEST(Rotate, ByARightAngleMovesEachPixel) {
  const ImageShape shape{3, 3, 1};
  const std::vector<float> image = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto turned =
      changed(shape, image, [](FloatImage& x) { warp(x, about_center(x.shape, rotation(90))); });
  EXPECT_THAT(turned, Pointwise(FloatNear(1e-4f), {7.f, 4.f, 1.f, 8.f, 5.f, 2.f, 9.f, 6.f, 3.f}));
  const auto back =
      changed(shape, turned, [](FloatImage& x) { warp(x, about_center(x.shape, rotation(-90))); });
  EXPECT_THAT(back, Pointwise(FloatNear(1e-3f), image));
}

TEST(Warp, IsBilinearWithZerosOutside) {
  Eigen::Vector2f half(0.5f, 0);
  EXPECT_THAT(
      changed(kGrey, kSix,
              [&](FloatImage& x) { warp(x, about_center(x.shape, Eigen::Matrix2f::Identity(), half)); }),
      ElementsAre(0.5, 1.5, 2.5, 2, 4.5, 5.5));
  EXPECT_THAT(changed(kGrey, kSix,
                      [](FloatImage& x) {
                        warp(x, about_center(x.shape, Eigen::Matrix2f::Identity(), {0, 1}));
                      }),
              ElementsAre(0, 0, 0, 1, 2, 3));
  for (const int64_t channels : {1, 2, 3}) {  // all channels alike
    const ImageShape shape{6, 7, channels};
    std::vector<float> image, one = some_image({6, 7, 1});
    for (const float x : one) image.insert(image.end(), static_cast<size_t>(channels), x);
    const auto turn = [](FloatImage& x) { warp(x, about_center(x.shape, rotation(25), {0.3f, -0.2f})); };
    const auto many = changed(shape, image, turn), single = changed({6, 7, 1}, one, turn);
    for (size_t i = 0; i < many.size(); ++i) EXPECT_EQ(many[i], single[i / static_cast<size_t>(channels)]);
  }
}

TEST(ColorJitter, KeepsColorsWithinTheirRange) {
  const std::vector<float> image = some_image(kColored);
  for (int64_t example = 0; example < 50; ++example) {
    const auto jittered =
        values_after("[{color_jitter: {brightness: 0.5, contrast: 0.5, saturation: 0.5, hue: 0.5}}]",
                     kColored, image, example);
    EXPECT_NE(jittered, image);
    for (const float x : jittered) EXPECT_TRUE(x >= 0 && x <= 1) << x;
  }
}

TEST(Colors, HaveKnownValues) {
  const ImageShape one{1, 1, 3};
  const std::vector<float> red = {1, 0, 0};
  const auto turned = [&](const std::vector<float>& color, float turn) {
    return changed(one, color, [=](FloatImage& x) { turn_hue(x, turn); });
  };
  EXPECT_THAT(turned(red, 1.0f / 3), Pointwise(FloatNear(1e-5f), {0.f, 1.f, 0.f}));
  EXPECT_THAT(turned(red, -1.0f / 3), Pointwise(FloatNear(1e-5f), {0.f, 0.f, 1.f}));
  EXPECT_THAT(turned(red, 1.0f / 6), Pointwise(FloatNear(1e-5f), {1.f, 1.f, 0.f}));
  EXPECT_THAT(turned({0.2f, 0.5f, 0.3f}, 0.5f), Pointwise(FloatNear(1e-5f), {0.5f, 0.2f, 0.4f}));
  EXPECT_THAT(turned({0.4f, 0.4f, 0.4f}, 0.3f), Each(0.4f));
  const std::vector<float> image = some_image(kColored);
  EXPECT_THAT(changed(kColored, image, [](FloatImage& x) { turn_hue(x, 1); }),
              Pointwise(FloatNear(1e-5f), image));
  for (const auto& change : {change_brightness, change_contrast, change_saturation, change_sharpness})
    EXPECT_THAT(changed(kColored, image, [&](FloatImage& x) { change(x, 1); }),
                Pointwise(FloatNear(1e-5f), image));
  EXPECT_THAT(changed(one, red, [](FloatImage& x) { change_saturation(x, 0); }),
              Each(FloatNear(0.299f, 1e-6f)));
  EXPECT_THAT(changed({1, 2, 1}, {0.2f, 0.6f}, [](FloatImage& x) { change_contrast(x, 0.5f); }),
              Pointwise(FloatNear(1e-6f), {0.3f, 0.5f}));
  EXPECT_THAT(changed({1, 2, 1}, {0.2f, 0.6f}, [](FloatImage& x) { change_brightness(x, 2); }),
              Pointwise(FloatNear(1e-6f), {0.4f, 1.f}));
  EXPECT_THAT(changed({1, 3, 1}, {0.25f, 0.5f, 0.75f}, [](FloatImage& x) { stretch_contrast(x); }),
              ElementsAre(0, 0.5, 1));
  EXPECT_THAT(changed({1, 2, 1}, {0.25f, 0.75f}, [](FloatImage& x) { solarize(x, 0.5f); }),
              ElementsAre(0.25, 0.25));
  EXPECT_THAT(changed({1, 2, 1}, {1.0f, 0.49f}, [](FloatImage& x) { posterize(x, 1); }),
              Pointwise(FloatNear(1e-6f), {128 / 255.f, 0.f}));
  std::vector<float> point(9, 0);
  point[4] = 1;
  EXPECT_THAT(changed({3, 3, 1}, point, [](FloatImage& x) { change_sharpness(x, 0); })[4],
              FloatNear(5 / 13.f, 1e-6f));
  std::vector<float> dark(1024);
  for (size_t i = 0; i < dark.size(); ++i)
    dark[i] = static_cast<float>(i / 16) / 255;  // 64 of 256 values, each as often
  const auto equalized = changed({32, 32, 1}, dark, [](FloatImage& x) { equalize(x); });
  EXPECT_NEAR(equalized[512], 0.5, 0.03);
  EXPECT_GT(equalized[1023], 0.99);
}

TEST(Cutout, CutsSquaresOfItsSize) {
  const ImageShape shape{12, 10, 3};
  const std::vector<float> ones(static_cast<size_t>(shape.size()), 1);
  double whole = 0, corners = 0;
  constexpr int kCount = 3000;
  for (int64_t example = 0; example < kCount; ++example) {
    const auto cut = values_after("[{cutout: 4}]", shape, ones, example);
    const double zeros = 360 - std::accumulate(cut.begin(), cut.end(), 0.0);
    ASSERT_GE(zeros, 12) << "a corner of 2 x 2";
    ASSERT_LE(zeros, 48);
    whole += zeros == 48;
    corners += zeros == 12;
  }
  EXPECT_NEAR(whole / kCount, 9 * 7 / 120.0, 0.04);
  EXPECT_GT(corners, 0);
}

TEST(Normalize, HasAnInverse) {
  const std::string yaml = "[{normalize: {mean: [0.1, 0.2, 0.3], deviation: [0.5, 2, 1]}}]";
  const std::vector<float> image = some_image(kColored);
  const std::vector<float> normal = values_after(yaml, kColored, image);
  for (size_t i = 0; i < image.size(); ++i) {
    const double mean[] = {0.1, 0.2, 0.3}, deviation[] = {0.5, 2, 1};
    EXPECT_NEAR(normal[i], (image[i] - mean[i % 3]) / deviation[i % 3], 1e-5);
  }
  EXPECT_THAT(changed(kColored, normal, [&](FloatImage& x) { augmentations(yaml)[0].choice->undo(x); }),
              Pointwise(FloatNear(1e-5f), image));
}

TEST(RandAugment, OfNoMagnitudeChangesLittle) {
  const ImageShape shape{16, 16, 3};
  const std::vector<float> image = some_image(shape);
  std::set<std::vector<float>> seen;
  int same = 0;
  for (int64_t example = 0; example < 200; ++example) {
    const auto result =
        values_after("[{rand_augment: {operations: 1, magnitude: 0}}]", shape, image, example);
    bool alike = true;
    for (size_t i = 0; i < image.size(); ++i) alike = alike && std::abs(result[i] - image[i]) < 0.02;
    same += alike;
    seen.insert(values_after("[rand_augment]", shape, image, example));
  }
  // All but flip and equalize, and auto-contrast changes nothing here.
  EXPECT_NEAR(same / 200.0, 12 / 14.0, 0.08);
  EXPECT_GT(seen.size(), 120u);
}

}  // namespace
}  // namespace mtf
