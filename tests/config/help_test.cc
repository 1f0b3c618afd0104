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
  EXPECT_THAT(help<Garden>("grows.height"), ::testing::StartsWith("# type: apple | cherry\nheight: 3"));
  EXPECT_EQ(help<Choice<Fruit>>("type"), help<Choice<Fruit>>());
  EXPECT_EQ(help<Garden>("sells.type"), help<Garden>("sells"));
  EXPECT_THROW(help<Choice<Fruit>>("colour"), Error);
}

/// Has a key with the name of a type.
struct Basket {
  Choice<Fruit> holds;
  Melon melon;
};
void describe(Visitor& visit, Basket& options) {
  visit("holds", options.holds, "what is in it");
  visit("melon", options.melon, "beside it");
}

TEST(HelpOfTypes, ATypeIsAddressedByItsName) {
  EXPECT_EQ(help<Choice<Fruit>>("cherry"),
            "type: cherry\n"
            "  height: 3                       # whole number: of the tree\n"
            "  leaves: 5                       # whole number: on it\n"
            "  roots: 7                        # whole number: under it\n"
            "  twigs: 9                        # whole number: within it\n"
            "  stones: 1                       # whole number: inside\n");
  EXPECT_EQ(help<Choice<Fruit>>("cherry.height"),
            "# type: cherry\n"
            "height: 3                         # whole number: of the tree\n");
  EXPECT_THAT(help<Garden>("grows.melon"),
              HasSubstr("type: melon\n"
                        "  weight: 4                       # whole number: of one\n"
                        "NAME:\n"
                        "  type: melon, as above, and\n"
                        "    price: 2"));
  EXPECT_EQ(help<Basket>("holds.melon"), help<Choice<Fruit>>("melon"));
  EXPECT_THAT(help<Basket>("melon"), ::testing::StartsWith("melon: "));
}

TEST(HelpOfTypes, HintsNameEachTypeAndKeyOnce) {
  const auto refusal = [](std::string_view path) -> std::string {
    try {
      help<Garden>(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("grows.chery"), "there is no key `chery`; did you mean `cherry`?");
  EXPECT_EQ(
      refusal("grows.colour"),
      "there is no key `colour`; one of `apple`, `cherry`, `melon`, `height`, `leaves`, `roots`, `twigs`, "
      "`stones`, `weight`, `price`");
  EXPECT_EQ(refusal("grows.melon.colour"), "there is no key `colour`; only `weight` is known here");
}

}  // namespace
}  // namespace mtf::config::fruits
