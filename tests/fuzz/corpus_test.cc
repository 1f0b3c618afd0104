// Feeds every input of the corpus, which contains former findings, to its reader. The reader must accept it
// or refuse it with an Error that can be printed (the entries check this), in little time and memory.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/entries.h"

namespace mtf::fuzz {
namespace {

namespace fs = std::filesystem;

struct Input {
  const Entry* entry;
  fs::path path;
};
void PrintTo(const Input& input, std::ostream* stream) { *stream << input.path.filename().string(); }

std::vector<Input> corpus() {
  std::vector<Input> inputs;
  for (const Entry& entry : entries()) {
    for (const fs::directory_entry& file :
         fs::directory_iterator(fs::path(MTF_SOURCE_DIR) / "tests/fuzz/corpus" / entry.name))
      inputs.push_back({&entry, file.path()});
  }
  std::ranges::sort(inputs, {}, &Input::path);
  return inputs;
}

std::string name_of(const ::testing::TestParamInfo<Input>& info) {
  std::string name = std::string(info.param.entry->name) + "_" + info.param.path.filename().string();
  std::ranges::replace_if(
      name, [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

int64_t peak_memory_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

class Corpus : public ::testing::TestWithParam<Input> {};

TEST_P(Corpus, IsReadOrRefused) {
  std::ifstream file(GetParam().path, std::ios::binary);
  ASSERT_TRUE(file) << GetParam().path;
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const int64_t memory_before = peak_memory_mib();
  const std::clock_t start = std::clock();
  GetParam().entry->run(bytes);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 2.0);
  EXPECT_LT(peak_memory_mib() - memory_before, 512);
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Corpus, ::testing::ValuesIn(corpus()), name_of);

}  // namespace
}  // namespace mtf::fuzz
