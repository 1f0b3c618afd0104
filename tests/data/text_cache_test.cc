#include "data/text/text_cache.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "data/text/text_source.h"
#include "tests/data/text_testing.h"

namespace mtf::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TextStores : public TextTest {
 protected:
  /// Returns the files of a kind in the cache.
  std::vector<std::string> cached(const std::string& prefix) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path("cache"))) {
      const std::string name = entry.path().filename();
      if (name.starts_with(prefix)) names.push_back(name);
    }
    return names;
  }

  /// Opens the source, packed, in several processes at once. Returns how many of them tokenised it.
  int tokenising_processes(const std::string& source) const {
    std::vector<pid_t> children;
    for (int i = 0; i < 6; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        int built = 0;
        TextSettings how = settings(0, 32, Packing::kDense);
        how.progress = [&](TextStage stage, int64_t, int64_t) { built |= stage == TextStage::kTokenise; };
        int64_t rows = 0;
        const bool failed =
            failure([&] { rows = make_text_source(text(source), how)->examples(); }) != "no error";
        ::_exit(failed || rows == 0 ? 9 : built);
      }
      children.push_back(child);
    }
    int built = 0;
    for (const pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) < 2) << status;
      built += WEXITSTATUS(status);
    }
    return built;
  }
};

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
TEST_F(TextStores, TokensAreMadeOnceAndTheContentOfTheFilesDecides) {
  const std::string source = file("t", "one\ntwo\n");
  std::vector<TextStage> stages;
  TextSettings how = settings(0, 8, Packing::kDense);
  how.progress = [&](TextStage stage, int64_t, int64_t) { stages.push_back(stage); };
  make_text_source(text(source), how);
  EXPECT_THAT(stages, ElementsAre(TextStage::kCheck, TextStage::kTokenise, TextStage::kPack));
  stages.clear();
  make_text_source(text(source), how);
  EXPECT_THAT(stages, IsEmpty());
  make_text_source(text(file("copy", "one\ntwo\n")), how);  // the same text under another name
  EXPECT_THAT(stages, IsEmpty());
  how.lengths.targets = 16;
  make_text_source(text(source), how);
  EXPECT_THAT(stages, ElementsAre(TextStage::kPack));
  file("t", "one\nTwo\n");  // the new text has the same size
  EXPECT_THAT(texts_of(*make_text_source(text(source), how), "targets"), ElementsAre("one|Two|"));
  how.lowercase = true;
  EXPECT_THAT(texts_of(*make_text_source(text(source), how), "targets"), ElementsAre("one|two|"));
  EXPECT_EQ(cached("tokens-").size(), 3u);
}

TEST_F(TextStores, ALimitOfLinesHoldsForStoredTokensToo) {
  const auto open = [&](const SourceOptions& source, int64_t limit) {
    std::vector<TextStage> stages;
    SourceContext context;
    context.text = settings(32, 32);
    context.text.limit.bytes = limit;
    context.text.progress = [&](TextStage stage, int64_t, int64_t) { stages.push_back(stage); };
    source.open(context);
    return stages;
  };
  const TextOptions lines = text(file("t", "one\nthree\n"));
  open(lines, 1000);
  EXPECT_EQ(failure([&] { open(lines, 4); }),
            path("t") +
                ": line 2: longer than 4 bytes; a file of shorter texts, or a greater "
                "`data.max_line_bytes`");
  EXPECT_THAT(open(lines, 5), IsEmpty()) << "a limit that no text exceeds makes nothing anew";
  const TextOptions documents = text(path("t"), TextUnit::kDocument);
  EXPECT_THAT(open(documents, 9), Contains(TextStage::kTokenise));
  EXPECT_THAT(failure([&] { open(documents, 8); }), HasSubstr("t: the document up to line 2: longer than 8"));
  const TsvOptions columns = tsv(file("c.tsv", "one\ttwo\n"));
  EXPECT_THAT(open(columns, 7), Contains(TextStage::kTokenise));
  EXPECT_THAT(failure([&] { open(columns, 6); }), HasSubstr("c.tsv: line 1: longer than 6"));
}

TEST_F(TextStores, ContentIsRememberedOnlyWhileTheFileStays) {
  const std::string t = file("t", "one\n");
  std::filesystem::create_directories(path("cache"));
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  std::filesystem::last_write_time(t, long_ago);
  const std::string first = content_hash(t, path("cache"));
  EXPECT_EQ(content_hash(t, path("cache")), first);
  file("t", "two\n");
  std::filesystem::last_write_time(t, long_ago);  // the size and the time are the same
  EXPECT_NE(content_hash(t, path("cache")), first);
}

TEST_F(TextStores, DamagedStoresAreMadeAnew) {
  const std::string source = file("t", "one\ntwo\n");
  make_text_source(text(source), settings(0, 8));
  for (const char* kind : {"tokens-", "rows-"}) {
    for (const std::string& name : cached(kind)) {
      const std::string store = path("cache/" + name);
      std::filesystem::resize_file(store, std::filesystem::file_size(store) - 3);
    }
  }
  EXPECT_THAT(texts_of(*make_text_source(text(source), settings(0, 8)), "targets"),
              ElementsAre("one|", "two|"));
}

TEST_F(TextStores, AFlippedBitAnywhereInAStoreIsNoticed) {
  const std::string source = file("t", "one\ntwo\n");
  std::vector<std::string> notes;
  TextSettings how = settings(0, 8);
  how.note = [&](const std::string& line) { notes.push_back(line); };
  make_text_source(text(source), how);
  EXPECT_THAT(notes, IsEmpty());
  for (const char* kind : {"tokens-", "rows-"}) {
    const std::string name = "cache/" + cached(kind).at(0);
    const std::string intact = content_of(path(name));
    for (size_t i = 0; i < intact.size(); i += 17) {
      std::string damaged = intact;
      damaged[i] ^= 1;
      file(name, damaged);
      notes.clear();
      EXPECT_THAT(texts_of(*make_text_source(text(source), how), "targets"), ElementsAre("one|", "two|"));
      EXPECT_THAT(notes, ElementsAre(path(name) + " is damaged and is built anew")) << "byte " << i;
      EXPECT_EQ(content_of(path(name)), intact);
    }
  }
}

TEST(StoreChecksum, LeavesOutOnlyTheTokensOfALargeStore) {
  const auto large = std::make_unique_for_overwrite<std::byte[]>(kMostCompared + 1);
  const auto checksum = [&](size_t tokens, std::byte first, int64_t offset) {
    large[0] = first;
    const std::vector<int64_t> offsets = {0, offset};
    const std::vector<StoredTensor> tensors = {{.name = "targets/tokens", .data = {large.get(), tokens}},
                                               tensor_of("targets/offsets", offsets)};
    return store_checksum(tensors, {{"examples", "1"}});
  };
  constexpr std::byte kOne{1}, kTwo{2};
  EXPECT_NE(checksum(1, kOne, 5), checksum(1, kTwo, 5));
  EXPECT_EQ(checksum(kMostCompared + 1, kOne, 5), checksum(kMostCompared + 1, kTwo, 5));
  EXPECT_NE(checksum(kMostCompared + 1, kOne, 5), checksum(kMostCompared + 1, kOne, 6));
}

TEST_F(TextStores, TokensThatAreNoneOfTheVocabularyAreNoticedWhenTheyAreRead) {
  const std::string source = file("t", "one\ntwo\n");
  make_text_source(text(source), settings(0, 8));
  const std::string store = path("cache/" + cached("tokens-").at(0));
  // Writes the store with another token and the checksum that belongs to it, as that of a large store is.
  const auto change_token = [&](int64_t from_end) {
    const SafetensorsFile stored(store);
    std::vector<int32_t> tokens = stored.at("targets/tokens").values<int32_t>();
    *(tokens.end() - from_end) = 1 << 16;
    std::vector<StoredTensor> tensors = stored.tensors();
    for (StoredTensor& tensor : tensors) {
      if (tensor.name == "targets/tokens") tensor.data = std::as_bytes(std::span(tokens));
    }
    write_store(store, tensors, stored.metadata());
  };
  change_token(1);  // belongs to no text
  EXPECT_THAT(texts_of(*make_text_source(text(source), settings(0, 8)), "targets"),
              ElementsAre("one|", "two|"));
  change_token(2);
  EXPECT_THAT(failure([&] { texts_of(*make_text_source(text(source), settings(0, 8)), "targets"); }),
              AllOf(HasSubstr(store + " is damaged"), HasSubstr("remove it")));
}

TEST_F(TextStores, FilesThatChangeWhileTheyAreTokenisedLeaveNoStore) {
  const std::string source = file("t", "one\ntwo\n");
  TextSettings how = settings(0, 8);
  how.progress = [&](TextStage stage, int64_t, int64_t) {
    if (stage == TextStage::kCheck) file("t", "uno\ndue\n");
  };
  EXPECT_THAT(failure([&] { make_text_source(text(source), how); }),
              HasSubstr(source + " changes while it is read"));
  EXPECT_THAT(cached("tokens-"), IsEmpty());
  file("t", "one\ntwo\n");
  EXPECT_THAT(texts_of(*make_text_source(text(source), settings(0, 8)), "targets"),
              ElementsAre("one|", "two|"));
}

TEST_F(TextStores, AnyNumberOfThreadsGivesTheSameTokens) {
  std::mt19937 random(1);
  std::string lines;
  for (int i = 0; i < 5000; ++i)
    lines += std::string(1 + random() % 60, static_cast<char>('a' + i % 26)) + "\n";
  const std::string source = file("t", lines);
  std::vector<std::vector<std::string>> rows;
  for (const int threads : {1, 2, 7}) {
    TextSettings how = settings(0, 64);
    how.threads = threads;
    how.cache = path(fmt::format("cache{}", threads));
    rows.push_back(texts_of(*make_text_source(text(source), how), "targets"));
  }
  ASSERT_EQ(rows[0].size(), 5000u);
  EXPECT_EQ(rows[0], rows[1]);
  EXPECT_EQ(rows[0], rows[2]);
}

TEST_F(TextStores, ProcessesThatStartTogetherMakeOneStore) {
  std::string lines;
  for (int i = 0; i < 20000; ++i) lines += fmt::format("line {}\n", i);
  const std::string source = file("t", lines);
  EXPECT_EQ(tokenising_processes(source), 1);
  EXPECT_EQ(cached("tokens-").size(), 1u);
  EXPECT_EQ(cached("rows-").size(), 1u);
  const std::string store = "cache/" + cached("tokens-").at(0);
  std::string damaged = content_of(path(store));
  damaged.back() ^= 1;
  file(store, damaged);
  EXPECT_EQ(tokenising_processes(source), 1) << "one of those that find it damaged";
}

TEST_F(TextStores, BadFilesLeaveNoStore) {
  EXPECT_THAT(
      failure([&] { make_text_source(parallel(file("a", "1\n"), file("b", "1\n2\n")), settings(8, 8)); }),
      HasSubstr("a has 1 lines"));
  EXPECT_THAT(cached("tokens"), IsEmpty());
}

}  // namespace
}  // namespace mtf::testing
