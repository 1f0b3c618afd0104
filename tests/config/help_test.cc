// Tests how help prints types: each once, under its name.
#include <gmock/gmock.h>

#include "engine/config/choice.h"

namespace mtf::config::fruits {
namespace {

using ::testing::HasSubstr;

struct Fruit {
  static constexpr std::string_view default_type = "apple";
  virtual ~Fruit() = default;
};
/// The keys of a fruit that grows on trees.
struct OnTree : Fruit {
  int64_t height = 3;
  int64_t leaves = 5;
  int64_t roots = 7;
  int64_t twigs = 9;
};
void describe_tree(Visitor& visit, OnTree& options) {
  visit("height", options.height, "of the tree");
  visit("leaves", options.leaves, "on it");
  visit("roots", options.roots, "under it");
  visit("twigs", options.twigs, "within it");
}

struct Apple final : OnTree {
  static constexpr std::string_view type_name = "apple";
};
void describe(Visitor& visit, Apple& options) { describe_tree(visit, options); }
struct Cherry final : OnTree {
  static constexpr std::string_view type_name = "cherry";
  int64_t stones = 1;
};
void describe(Visitor& visit, Cherry& options) {
  describe_tree(visit, options);
  visit("stones", options.stones, "inside");
}
struct Melon final : Fruit {
  static constexpr std::string_view type_name = "melon";
  int64_t weight = 4;
};
void describe(Visitor& visit, Melon& options) { visit("weight", options.weight, "of one"); }
const Registration<Fruit, Apple> apple;
const Registration<Fruit, Cherry> cherry;
const Registration<Fruit, Melon> melon;

struct Price {
  int64_t price = 2;
};
void describe(Visitor& visit, Price& extra, const Fruit&) { visit("price", extra.price, "of a box"); }

struct Garden {
  std::variant<Choice<Fruit>, Named<Extended<Fruit, Price>>> grows;
  Named<Extended<Fruit, Price>> sells;
};
void describe(Visitor& visit, Garden& options) {
  visit("grows", options.grows, "one or several");
  visit("sells", options.sells, "by name");
}

TEST(HelpOfTypes, ATypeThatHasAllKeysOfAnotherRefersToIt) {
  EXPECT_EQ(help<Choice<Fruit>>(),
            "type: apple\n"
            "  height: 3                       # whole number: of the tree\n"
            "  leaves: 5                       # whole number: on it\n"
            "  roots: 7                        # whole number: under it\n"
            "  twigs: 9                        # whole number: within it\n"
            "type: cherry\n"
            "  all keys of `type: apple`, and\n"
            "  stones: 1                       # whole number: inside\n"
            "type: melon\n"
            "  weight: 4                       # whole number: of one\n");
}

TEST(HelpOfTypes, KeysOfAllTypesStandOnceAndEntriesOfMapsBelowAName) {
  EXPECT_THAT(help<Garden>("sells"), HasSubstr("  # NAME:\n"
                                               "  #   type: apple\n"
                                               "  #     height: 3"));
  EXPECT_THAT(help<Garden>("sells"),
              HasSubstr("  #   every type also has\n"
                        "  #     price: 2                  # whole number: of a box\n"));
}

TEST(HelpOfTypes, TypesThatWerePrintedAreOnlyNamed) {
  const std::string text = help<Garden>();
  EXPECT_THAT(text, HasSubstr("  # NAME:\n"
                              "  #   type: apple | cherry | melon, as above, and\n"
                              "  #     price: 2                  # whole number: of a box\n"));
  EXPECT_THAT(text, HasSubstr("  # NAME:\n"
                              "  #   type: apple | cherry | melon, as in `grows`, and\n"
                              "  #     price: 2 "));
  EXPECT_EQ(text.find("stones"), text.rfind("stones"));
}

TEST(HelpOfTypes, AKeyIsPrintedWithTheTypesThatHaveIt) {
  EXPECT_EQ(help<Choice<Fruit>>("height"),
            "# type: apple | cherry\n"
            "height: 3                         # whole number: of the tree\n");
  EXPECT_EQ(help<Choice<Fruit>>("weight"),
            "# type: melon\n"
            "weight: 4                         # whole number: of one\n");
  EXPECT_EQ(help<Choice<Fruit>>("type"), help<Choice<Fruit>>());
  EXPECT_EQ(help<Garden>("sells.type"), help<Garden>("sells"));
  EXPECT_THROW(help<Choice<Fruit>>("colour"), Error);
}

}  // namespace
}  // namespace mtf::config::fruits
