#include "engine/base/nearest.h"

#include <gtest/gtest.h>

namespace mtf {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("steps", "steps"), 0);
  EXPECT_EQ(edit_distance("stepz", "steps"), 1);
  EXPECT_EQ(edit_distance("step", "steps"), 1);
  EXPECT_EQ(edit_distance("setps", "steps"), 1);
  EXPECT_EQ(edit_distance("STEPS", "steps"), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
}

TEST(Nearest, IsTheClosestWordWithinAThirdOfItsLetters) {
  EXPECT_EQ(nearest("learning_rat", {"layout", "learning_rate"}), "learning_rate");
  EXPECT_EQ(nearest("adm", {"sgd", "adam"}), "adam");
  EXPECT_EQ(nearest("momentum", {"sgd", "adam"}), std::nullopt);
  EXPECT_EQ(nearest("x", {"y"}), std::nullopt) << "any single letter would be as near";
}

TEST(DidYouMean, KnowsCommonNames) {
  const CommonName layer_norm{"layernorm", "`layer_norm`"};
  EXPECT_EQ(did_you_mean("LayerNorm", {"rms_norm"}, {&layer_norm, 1}), "did you mean `layer_norm`?");
  EXPECT_EQ(did_you_mean("rmsnorm", {"rms_norm"}, {&layer_norm, 1}), "did you mean `rms_norm`?");
}

TEST(DidYouMean, NamesTheNearestOrAllThereAre) {
  EXPECT_EQ(did_you_mean("stepz", {"steps", "epochs"}), "did you mean `steps`?");
  EXPECT_EQ(did_you_mean("foo", {"steps", "epochs"}), "one of `steps`, `epochs`");
  EXPECT_EQ(did_you_mean("foo", {"steps"}), "only `steps` is known here");
  EXPECT_EQ(did_you_mean("foo", {}), "");
}

}  // namespace
}  // namespace mtf
