#include "engine/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <limits>

#include "engine/base/hash.h"
#include "tests/checkpoint/testing.h"

namespace mtf {
namespace {

using ::testing::HasSubstr;

const std::string hash(32, 'a');

/// Returns a manifest with a variable `x` of these blocks, which follow each other in file `f`.
Manifest manifest_of(const Shape& shape, const std::vector<Rectangle>& blocks) {
  Manifest manifest = small_manifest(3);
  CheckpointVariable variable{"x", DType::kFloat32, shape, {}};
  int64_t offset = 64;
  for (const Rectangle& block : blocks) {
    int64_t bytes = 4;
    for (const int64_t size : block.size) bytes *= size;
    variable.blocks.push_back({"f", offset, bytes, block.begin, block.size, hash});
    offset += bytes;
  }
  manifest.files = {{"f", offset, 64, hash}};
  manifest.variables = {variable};
  return manifest;
}

Manifest example() { return manifest_of(Shape::parse("a:4;b:6"), {{{0, 0}, {4, 2}}, {{0, 2}, {4, 4}}}); }

std::string manifest_failure(const std::string& text) {
  return message_of([&] { parse_manifest(text, "run/manifest.json"); });
}

/// Returns the text with `from` replaced by `to`, and with the right checksum.
std::string edited(std::string text, const std::string& from, const std::string& to) {
  const size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  text.replace(place, from.size(), to);
  text.resize(text.rfind("  \"xxh128\""));
  return text + "  \"xxh128\": \"" + hash128_hex(text) + "\"\n}\n";
}

/// Returns the message for the example manifest with a part of its text replaced.
std::string manifest_failure(const std::string& from, const std::string& to) {
  return manifest_failure(edited(to_json(example()), from, to));
}

TEST(Manifest, ReadsWhatItWrote) {
  Manifest manifest = example();
  manifest.seed = std::numeric_limits<uint64_t>::max();
  manifest.next_rows = {{"train", std::numeric_limits<int64_t>::max()}, {"ü \"quoted\"", 0}};
  manifest.vocabularies = {{"inputs", "bytes"}, {"targets", "ab \"12\""}};
  manifest.variables.push_back({"scalar", DType::kInt64, {}, {{"g", 8, 8, {}, {}, hash}}});
  manifest.files.push_back({"g", 16, 8, hash});
  const std::string text = to_json(manifest);
  const Manifest again = parse_manifest(text, "manifest.json");
  EXPECT_EQ(again.seed, manifest.seed);
  EXPECT_EQ(again.next_rows, manifest.next_rows);
  EXPECT_EQ(again.vocabularies, manifest.vocabularies);
  EXPECT_EQ(again.state, manifest.state);
  EXPECT_EQ(again.variables[0].shape, manifest.variables[0].shape);
  EXPECT_EQ(again.variables[1].dtype, DType::kInt64);
  EXPECT_EQ(to_json(again), text);
}

TEST(Manifest, KeepsTheConfigurationThatItHasTheHashOf) {
  Manifest manifest = example();
  manifest.config = "# Resolved\ntrain: {steps: 3, text: \"ü\"}\n";
  manifest.config_hash = hash128_hex(manifest.config);
  const std::string text = to_json(manifest);
  EXPECT_EQ(parse_manifest(text, "manifest.json").config, manifest.config);
  EXPECT_THAT(manifest_failure(edited(text, "steps: 3", "steps: 4")),
              HasSubstr("`config` does not have the hash `config_hash`"));
}

TEST(Manifest, NumbersComeBackToTheLastBit) {
  std::mt19937_64 random(3);
  Manifest manifest = small_manifest(1);
  for (const double value : {0.1, -0.0, 1e300, 5e-324, std::numeric_limits<double>::max(), 1.0 / 3, 123456.0})
    manifest.state[std::to_string(manifest.state.size())] = value;
  for (int i = 0; i < 2000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (std::isfinite(value)) manifest.state[std::to_string(manifest.state.size())] = value;
  }
  for (const auto& [name, value] : parse_manifest(to_json(manifest), "manifest.json").state)
    EXPECT_EQ(std::bit_cast<uint64_t>(value), std::bit_cast<uint64_t>(manifest.state.at(name))) << value;
}

TEST(Manifest, EndsWithTheHashOfAllBefore) {
  const std::string text = to_json(example());
  EXPECT_EQ(text.find(hash128_hex(text.substr(0, text.rfind("  \"xxh128\"")))), text.size() - 36);
  EXPECT_EQ(manifest_failure(""),
            "run/manifest.json: it does not end with its checksum; the checkpoint is damaged: remove "
            "its directory to continue from an older one");
  EXPECT_THAT(manifest_failure(text + "\n"), HasSubstr("does not end with its checksum"));
  std::string damaged = text;
  damaged[10] ^= 1;
  EXPECT_THAT(manifest_failure(damaged), HasSubstr("does not have the checksum that it ends with"));
}

TEST(Manifest, NamesAreThoseOfSteps) {
  EXPECT_EQ(checkpoint_name(1000), "step-00001000");
  EXPECT_EQ(checkpoint_name(1234567890), "step-1234567890");
}

TEST(Manifest, UnknownFormatsAndKeysAreRefused) {
  EXPECT_EQ(manifest_failure("\"format\": 1", "\"format\": 2"),
            "run/manifest.json: its format is 2; this program reads format 1");
  EXPECT_THAT(manifest_failure("\"format\": 1", "\"format\": [[1]]"), HasSubstr("`format`"));
  EXPECT_THAT(manifest_failure("\"format\": 1,", ""), HasSubstr("has no `format`"));
  EXPECT_THAT(manifest_failure("\"mesh\"", "\"Mesh\""), HasSubstr("has no `mesh`"));
  EXPECT_THAT(manifest_failure("\"seed\"", "\"extra\": 1, \"seed\""), HasSubstr("unknown key `extra`"));
  EXPECT_THAT(manifest_failure("\"seed\"", "\"step\": 3, \"seed\""), HasSubstr("`step` occurs twice"));
  EXPECT_THAT(manifest_failure("\"dtype\"", "\"blocks\": [], \"dtype\""), HasSubstr("`blocks` occurs twice"));
  EXPECT_THAT(manifest_failure("\"seed\":", "\"seed\""), HasSubstr("no valid JSON"));
}

TEST(Manifest, WrongTypesAreNamed) {
  EXPECT_THAT(manifest_failure("\"step\": 3", "\"step\": -3"), HasSubstr("`step` holds"));
  EXPECT_THAT(manifest_failure("\"step\": 3", "\"step\": 3.0"), HasSubstr("`step` holds"));
  EXPECT_THAT(manifest_failure("\"step\": 3", "\"step\": 18446744073709551615"), HasSubstr("`step` holds"));
  EXPECT_THAT(manifest_failure("18364758544493064720", "18446744073709551616"),
              HasSubstr("`seed` is no whole number"));
  EXPECT_THAT(manifest_failure("\"0123\"", "null"), HasSubstr("`config_hash` is no text"));
  EXPECT_THAT(manifest_failure("{\"train\":640}", "[640]"), HasSubstr("`next_rows` is no JSON object"));
  EXPECT_THAT(manifest_failure(":640", ":\"640\""), HasSubstr("`next_rows` holds"));
  EXPECT_THAT(manifest_failure(":1.25", ":\"1.25\""), HasSubstr("`seconds` of `state` is no number"));
  EXPECT_THAT(manifest_failure(":1.25", ":1e999"), HasSubstr("no valid JSON"));
  EXPECT_THAT(manifest_failure("\"files\": [", "\"files\": [3, "), HasSubstr("file 0: is no JSON object"));
  EXPECT_THAT(manifest_failure("\"header_bytes\":64", "\"header_bytes\":[]"),
              HasSubstr("file `f`: `header_bytes`"));
  EXPECT_THAT(manifest_failure("\"header_xxh128\":\"a", "\"header_xxh128\":\"A"),
              HasSubstr("`header_xxh128` is no hash"));
  EXPECT_THAT(manifest_failure("\"variables\": [", "\"variables\": [{}, "),
              HasSubstr("variable 0: has no `name`"));
  EXPECT_THAT(manifest_failure("\"float32\"", "\"float12\""),
              HasSubstr("variable `x`: `dtype` is the unknown `float12`"));
  EXPECT_THAT(manifest_failure("[\"a\",4]", "[\"a\",0]"), HasSubstr("variable `x`: `shape`"));
  EXPECT_THAT(manifest_failure("[\"a\",4]", "[\"b\",4]"),
              HasSubstr("variable `x`: `shape` has the dimension `b` twice"));
  EXPECT_THAT(manifest_failure("[\"a\",4]", "\"a\""), HasSubstr("variable `x`: `shape`"));
  EXPECT_THAT(manifest_failure("\"blocks\":[", "\"blocks\":[[],"),
              HasSubstr("variable `x`: a block is no JSON object"));
  EXPECT_THAT(manifest_failure("\"begin\":[0,0]", "\"begin\":[0,\"0\"]"),
              HasSubstr("variable `x`: a block `begin` holds"));
}

TEST(Manifest, BlocksLieInTheirVariableAndFile) {
  EXPECT_THAT(manifest_failure("\"begin\":[0,2]", "\"begin\":[0,3]"),
              HasSubstr("variable `x`: the block at [0, 3] of size [4, 4] does not lie within [4, 6]"));
  EXPECT_THAT(manifest_failure("\"begin\":[0,2]", "\"begin\":[0,9223372036854775807]"),
              HasSubstr("does not lie within"));
  EXPECT_THAT(manifest_failure("\"begin\":[0,2]", "\"begin\":[0]"), HasSubstr("1 indices and 2 sizes"));
  EXPECT_THAT(manifest_failure("\"size\":[4,4]", "\"size\":[4,0]"), HasSubstr("does not lie within"));
  EXPECT_THAT(
      manifest_failure("\"bytes\":32,\"begin\"", "\"bytes\":31,\"begin\""),
      HasSubstr("variable `x`: the block at [0, 0] has 31 bytes, but its 8 elements of float32 need 32"));
  EXPECT_THAT(manifest_failure("\"file\":\"f\"", "\"file\":\"h\""),
              HasSubstr("variable `x`: its file `h` is none of the checkpoint's"));
  EXPECT_THAT(manifest_failure("\"offset\":96", "\"offset\":97"), HasSubstr("variable `x`: bytes 97 to 161"));
  EXPECT_THAT(manifest_failure("\"offset\":96", "\"offset\":9223372036854775807"),
              HasSubstr("do not lie in the data"));
  EXPECT_THAT(manifest_failure("\"offset\":64", "\"offset\":63"),
              HasSubstr("do not lie in the data of file `f`"));
  EXPECT_THAT(manifest_failure("\"offset\":64", "\"offset\":96"),
              HasSubstr("variable `x`: its data in file `f` begin at byte 96, those before end at byte 64"));
  EXPECT_THAT(manifest_failure("\"bytes\":160", "\"bytes\":170"),
              HasSubstr("10 bytes of file `f` belong to no variable"));
  EXPECT_THAT(manifest_failure("[\"a\",4]", "[\"a\",9223372036854775807]"),
              HasSubstr("more than 2^63 bytes"));
}

TEST(Manifest, FilesLieInTheCheckpointsDirectory) {
  for (const char* name : {"../f", "/f", "", ".", "..", "a/b", "manifest.json", "f\\u0000"})
    EXPECT_THAT(manifest_failure("\"name\":\"f\"", std::string("\"name\":\"") + name + "\""),
                HasSubstr("cannot be the name of a file"))
        << name;
  EXPECT_THAT(manifest_failure("\"header_bytes\":64", "\"header_bytes\":161"),
              HasSubstr("file `f` of 160 bytes has a header of 161 bytes"));
  Manifest twice = example();
  twice.files.push_back(twice.files[0]);
  EXPECT_THAT(manifest_failure(to_json(twice)), HasSubstr("file `f` occurs twice"));
  twice = example();
  twice.variables.push_back(twice.variables[0]);
  EXPECT_THAT(manifest_failure(to_json(twice)), HasSubstr("variable `x` occurs twice"));
}

TEST(Manifest, BlocksHoldEachElementOnce) {
  const Shape shape = Shape::parse("a:4;b:6");
  const auto problem = [&](const std::vector<Rectangle>& blocks) {
    return manifest_failure(to_json(manifest_of(shape, blocks)));
  };
  EXPECT_EQ(problem({{{0, 0}, {4, 6}}}), "");
  EXPECT_EQ(problem({{{2, 0}, {2, 6}}, {{0, 3}, {2, 3}}, {{0, 0}, {2, 3}}}), "");
  EXPECT_EQ(
      problem({{{0, 0}, {1, 4}}, {{0, 4}, {3, 2}}, {{3, 1}, {1, 5}}, {{1, 0}, {3, 1}}, {{1, 1}, {2, 3}}}),
      "");  // a pinwheel: no single cut separates the blocks
  EXPECT_THAT(problem({}), HasSubstr("variable `x`: its blocks hold only 0 of its 96 bytes"));
  EXPECT_THAT(problem({{{0, 0}, {4, 5}}}),
              HasSubstr("variable `x`: its blocks hold only 80 of its 96 bytes"));
  EXPECT_THAT(problem({{{0, 0}, {4, 6}}, {{0, 0}, {1, 1}}}), HasSubstr("variable `x`: its blocks overlap"));
  EXPECT_THAT(problem({{{0, 0}, {4, 3}}, {{0, 0}, {4, 3}}}), HasSubstr("variable `x`: its blocks overlap"));
  EXPECT_THAT(problem({{{0, 0}, {4, 4}}, {{0, 3}, {4, 2}}}), HasSubstr("variable `x`: its blocks overlap"));
  // Each index of each axis occurs as often as it should, but not every element exactly once.
  EXPECT_THAT(manifest_failure(to_json(
                  manifest_of(Shape::parse("a:2;b:2"),
                              {{{0, 0}, {1, 1}}, {{0, 0}, {1, 1}}, {{1, 1}, {1, 1}}, {{1, 1}, {1, 1}}}))),
              HasSubstr("its blocks overlap"));
}

/// Compares with counting elements, for blocks that are moved, doubled or left out.
TEST(Manifest, EveryCoverThatIsNotExactIsFound) {
  std::mt19937 random(11);
  const Shape shape = Shape::parse("a:3;b:4;c:5");
  const Rectangle whole{{0, 0, 0}, {3, 4, 5}};
  int exact = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<Rectangle> blocks = random_tiling(whole, 1 + random() % 10, random);
    if (round % 3 != 0) blocks[random() % blocks.size()] = random_rectangle(shape, random);
    if (round % 7 == 0) blocks.push_back(random_rectangle(shape, random));
    std::vector<int> held(60, 0);
    for (const Rectangle& block : blocks)
      for (int64_t a = block.begin[0]; a < block.begin[0] + block.size[0]; ++a)
        for (int64_t b = block.begin[1]; b < block.begin[1] + block.size[1]; ++b)
          for (int64_t c = block.begin[2]; c < block.begin[2] + block.size[2]; ++c)
            ++held[static_cast<size_t>((a * 4 + b) * 5 + c)];
    const bool is_exact = std::ranges::all_of(held, [](int count) { return count == 1; });
    EXPECT_EQ(manifest_failure(to_json(manifest_of(shape, blocks))).empty(), is_exact);
    exact += is_exact ? 1 : 0;
  }
  EXPECT_GT(exact, 50);
  EXPECT_LT(exact, 250);
}

TEST(Manifest, ThousandsOfBlocksAreCheckedAtOnce) {
  std::vector<Rectangle> blocks;
  for (int64_t a = 0; a < 100; ++a)
    for (int64_t b = 0; b < 100; ++b) blocks.push_back({{a << 20, b << 20}, {1 << 20, 1 << 20}});
  const std::string text = to_json(manifest_of(Shape::parse("a:104857600;b:104857600"), blocks));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(manifest_failure(text), "");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));  // takes 0.1 s
}

/// Whatever the text contains, the parser only ever throws an Error.
TEST(Manifest, AnyTextIsParsedOrRefused) {
  const std::string text = to_json(example());
  const std::string body = text.substr(0, text.rfind("  \"xxh128\""));
  std::mt19937 random(5);
  const std::string alphabet = "0123456789-.eE\"[]{},: abx\\u\xff";
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = body;
    for (uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t place = random() % damaged.size();
      if (random() % 3 == 0)
        damaged.erase(place, 1 + random() % 20);
      else
        damaged.insert(place, 1, alphabet[random() % alphabet.size()]);
    }
    manifest_failure(damaged + "  \"xxh128\": \"" + hash128_hex(damaged) + "\"\n}\n");
  }
  const std::string deep = "{\n  \"format\": " + std::string(100000, '[') + std::string(100000, ']') + ",\n";
  EXPECT_NE(manifest_failure(deep + "  \"xxh128\": \"" + hash128_hex(deep) + "\"\n}\n"), "");
}

}  // namespace
}  // namespace mtf
