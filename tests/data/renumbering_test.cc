#include "data/vocabulary/renumbering.h"

#include <gmock/gmock.h>

namespace mtf {
namespace {

using ::testing::ElementsAre;

TEST(Renumbering, BeginAndEndChangePlacesWithTheFirstIds) {
  EXPECT_THAT(file_ids_of({.size = 6, .begin = 4, .end = 5}), ElementsAre(4, 5, 2, 3, 0, 1));
  EXPECT_THAT(file_ids_of({.size = 4, .begin = 1, .end = 2}), ElementsAre(1, 2, 0, 3));  // Llama 2
  EXPECT_THAT(file_ids_of({.size = 4, .begin = 0, .end = 1}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(file_ids_of({.size = 4, .begin = 1, .end = 0}), ElementsAre(1, 0, 2, 3));
}

TEST(Renumbering, WithoutABeginPaddingIsANewId) {
  EXPECT_THAT(file_ids_of({.size = 5, .end = 4}), ElementsAre(kNoFileId, 4, 2, 3, 1, 0));
  EXPECT_THAT(file_ids_of({.size = 4, .end = 0}), ElementsAre(kNoFileId, 0, 2, 3, 1));
  EXPECT_THAT(file_ids_of({.size = 4, .end = 1}), ElementsAre(kNoFileId, 1, 2, 3, 0));
}

}  // namespace
}  // namespace mtf
