// Tests that stores which nobody uses any more are removed from the cache.
#include "data/text/old_stores.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "data/text/text_source.h"
#include "tests/data/text_testing.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

namespace fs = std::filesystem;

const std::string kKey = "0123456789abcdef0123456789abcdef";

constexpr int kMonth = 30 * 24;  // hours

class OldStores : public TextTest {
 protected:
  void SetUp() override {
    TextTest::SetUp();
    fs::create_directories(path("cache/files"));
  }
  /// Creates a file in the cache that was used `hours_ago` hours ago.
  void used(const std::string& name, int hours_ago) {
    const std::string store = file("cache/" + name, "some bytes");
    fs::last_write_time(store, fs::file_time_type::clock::now() - std::chrono::hours(hours_ago));
  }
  /// Makes all files look unused for more than a month.
  void age_all() {
    const auto then = fs::file_time_type::clock::now() - std::chrono::hours(kMonth + 1);
    for (const std::string& name : names()) fs::last_write_time(path("cache/" + name), then);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path("cache"))) names.push_back(entry.path().filename());
    return names;
  }
  std::unique_ptr<TextSource> open(const std::string& text) {
    TextSettings how = settings(0, 8);
    how.cache = path("cache");
    how.note = [this](const std::string& line) { notes_.push_back(line); };
    return make_text_source(testing::text(text), how);
  }

  std::vector<std::string> notes_;
};

TEST_F(OldStores, GoAndNothingElseDoes) {
  used("tokens-" + kKey + ".safetensors", kMonth + 1);
  used("rows-" + kKey + ".safetensors", kMonth + 1);
  used("rows-" + kKey + ".safetensors.partial-12", kMonth + 1);
  used("images-" + kKey + ".pixels.partial-12", kMonth + 1);
  const std::vector<std::string> others = {"rows-" + kKey.substr(1) + "0.safetensors", "weights.safetensors",
                                           "tokens-" + kKey, "tokens-mine.safetensors",
                                           "my-tokens-" + kKey + ".safetensors"};
  for (size_t i = 0; i < others.size(); ++i) used(others[i], i == 0 ? kMonth - 1 : 10 * kMonth);
  const RemovedStores removed = remove_old_stores(path("cache"));
  EXPECT_EQ(removed.count, 4);
  EXPECT_EQ(removed.bytes, 40);
  EXPECT_EQ(removed.to_string("d"), "removed 4 stores (0.0 MB) from d, which no run has used for 30 days");
  EXPECT_THAT(names(), UnorderedElementsAre("files", others[0], others[1], others[2], others[3], others[4]));
}

TEST_F(OldStores, GoWhenANewOneIsMade) {
  const std::string text = file("a.txt", "one\ntwo\n"), other = file("b.txt", "three\n");
  open(text);
  age_all();
  const auto in_use = open(text);  // makes no store, and marks both as used
  EXPECT_THAT(notes_, IsEmpty());
  used("tokens-" + kKey + ".safetensors", kMonth + 1);
  open(other);
  EXPECT_THAT(notes_, ElementsAre(::testing::StartsWith("removed 1 store (")));
  EXPECT_EQ(names().size(), 5u);  // two for each text, and `files`
  age_all();
  const auto rows = rows_of(*in_use, "targets");
  EXPECT_EQ(remove_old_stores(path("cache")).count, 4);
  EXPECT_EQ(rows_of(*in_use, "targets"), rows);  // an open store remains usable
  EXPECT_EQ(rows_of(*open(text), "targets"), rows);
}

}  // namespace
}  // namespace mtf::testing
