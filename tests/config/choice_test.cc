#include "engine/config/choice.h"

#include <gmock/gmock.h>

#include "engine/config/load.h"
#include "tests/support/problem_texts.h"

namespace mtf::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct ShapeOptions {
  static constexpr std::string_view default_type = "circle";  // until the options are read
  virtual ~ShapeOptions() = default;
  virtual double area() const = 0;
};

struct Circle final : ShapeOptions {
  static constexpr std::string_view type_name = "circle";
  static constexpr std::array common_names = {CommonName{"disc", "`circle`"}};
  static constexpr bool type_required = true;
  double radius = 1;
  double area() const override { return 3 * radius * radius; }
};
void describe(Visitor& visit, Circle& options) {
  visit("radius", options.radius, "half the width", positive);
}
const Registration<ShapeOptions, Circle> circle;

struct Square final : ShapeOptions {
  static constexpr std::string_view type_name = "square";
  static constexpr std::string_view shorthand = "side";
  static constexpr bool type_required = true;
  double side = 2;
  double area() const override { return side * side; }
};
void describe(Visitor& visit, Square& options) { visit("side", options.side, "length of a side", positive); }
const Registration<ShapeOptions, Square> square;

using AnyShape = Choice<ShapeOptions>;

struct Weight {
  double weight = 1;
};
void describe(Visitor& visit, Weight& extra, const ShapeOptions& shape) {
  if (shape.area() < 100) visit("weight", extra.weight, "its share");
}
using Weighted = Extended<ShapeOptions, Weight>;
using OneOrMany = std::variant<AnyShape, Named<Weighted>>;

template <class T>
T parsed(const std::string& yaml, std::string* errors = nullptr) {
  Diagnostics diagnostics;
  const Node node = parse_yaml(yaml, "a.yaml", diagnostics);
  T value = parse<T>(node, diagnostics, "shape");
  const std::string text = lines_of(diagnostics.errors());
  if (errors)
    *errors = text;
  else
    EXPECT_EQ(text, "");
  return value;
}

TEST(Choice, TypeChoosesAClassThatIsKnownByItsRegistrationAlone) {
  EXPECT_EQ(parsed<AnyShape>("{type: square, side: 3}")->area(), 9);
  EXPECT_EQ(parsed<AnyShape>("square")->area(), 4);
  EXPECT_EQ(AnyShape().type(), "circle");
  EXPECT_EQ(AnyShape("square").get_if<Circle>(), nullptr);
}

TEST(Choice, CopiesAreDeep) {
  Circle large;
  large.radius = 5;
  AnyShape one = large, two = one;
  two.get_if<Circle>()->radius = 1;
  EXPECT_EQ(one->area(), 75);
  two = one;
  EXPECT_EQ(two->area(), 75);
}

TEST(Choice, IsWrittenAsItIsRead) {
  const AnyShape square = parsed<AnyShape>("{type: square, side: 3}");
  EXPECT_EQ(to_flow_yaml(dump(square)), "{type: square, side: 3}");
  const Weighted weighted = parsed<Weighted>("{type: circle, radius: 2, weight: 0.5}");
  EXPECT_EQ(to_flow_yaml(dump(weighted)), "{type: circle, radius: 2, weight: 0.5}");
}

TEST(Choice, MistakesNameWhatThereIs) {
  std::string errors;
  parsed<AnyShape>("{type: sqare}", &errors);
  EXPECT_THAT(errors, HasSubstr("did you mean `square`?"));
  parsed<AnyShape>("disc", &errors);
  EXPECT_THAT(errors, HasSubstr("did you mean `circle`?"));
  parsed<AnyShape>("{radius: 2}", &errors);
  EXPECT_THAT(errors, HasSubstr("`shape` needs a `type`; one of `circle`, `square`"));
  parsed<AnyShape>("{type: square, radius: 3}", &errors);
  EXPECT_THAT(errors, HasSubstr("unknown key `shape.radius`"));
  parsed<AnyShape>("{type: circle, radius: 0}", &errors);
  EXPECT_THAT(errors, HasSubstr("greater than 0"));
}

TEST(Choice, APlaceMayAddKeys) {
  EXPECT_EQ(parsed<Weighted>("{type: square, weight: 3}").extra.weight, 3);
  std::string errors;
  parsed<Weighted>("{type: circle, wieght: 3}", &errors);
  EXPECT_THAT(errors, HasSubstr("did you mean `shape.weight`?"));
}

TEST(Choice, StandsAmongTheAlternativesOfAVariant) {
  EXPECT_EQ(std::get<AnyShape>(parsed<OneOrMany>("{type: square, side: 3}"))->area(), 9);
  const auto many = parsed<OneOrMany>("{a: square, b: {type: circle, weight: 2}}");
  const auto& named = std::get<Named<Weighted>>(many);
  ASSERT_EQ(named.size(), 2u);
  EXPECT_EQ(named[0].second.choice->area(), 4);
  EXPECT_EQ(named[1].second.extra.weight, 2);
  EXPECT_THAT(help<OneOrMany>(), HasSubstr("type: square"));
}

}  // namespace
}  // namespace mtf::config
