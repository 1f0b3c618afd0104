#include <gtest/gtest.h>

#include "trainer/explain/table.h"

namespace mtf {
namespace {

TEST(TextTable, ColumnsAreAsWideAsTheirTexts) {
  TextTable table({{"layer"}, {"empty"}, {"bytes", TextTable::kRight}});
  table.row({"first", "", "4 B"});
  table.line("a line across");
  table.row({"größer", "", "1.024 KB"});  // characters, not bytes
  EXPECT_EQ(table.to_string(),
            "  layer      bytes\n"
            "  first        4 B\n"
            "  a line across\n"
            "  größer  1.024 KB\n");
}

TEST(TextTable, WithoutTitlesThereIsNoHeader) {
  TextTable table({{""}, {""}});
  EXPECT_TRUE(table.empty());
  table.row({"a", "b"});
  EXPECT_EQ(table.to_string(), "  a  b\n");
}

TEST(TextTable, ThreeRowsThatDifferInNumbersOfTheirNamesBecomeOne) {
  TextTable table({{"name"}, {"bytes"}, {""}});
  for (const char* name : {"block_0/layer_1/kernel", "block_0/layer_1/bias", "block_1/layer_1/kernel",
                           "block_10/layer_1/kernel"}) {
    table.row({name, "8 B"});
  }
  table.row({"block_3/layer_1/kernel", "9 B"});
  table.fold({0}, 2);
  EXPECT_EQ(table.to_string(),
            "  name                    bytes\n"
            "  block_*/layer_1/kernel  8 B    x 3\n"
            "  block_0/layer_1/bias    8 B\n"
            "  block_3/layer_1/kernel  9 B\n");
}

TEST(TextTable, TwoRowsAndRowsAcrossALineStayApart) {
  TextTable table({{"name"}, {""}});
  table.row({"layer_1"});
  table.row({"layer_2"});
  table.line("line");
  table.row({"layer_3"});
  table.fold({0}, 1);
  EXPECT_EQ(table.to_string(),
            "  name\n"
            "  layer_1\n"
            "  layer_2\n"
            "  line\n"
            "  layer_3\n");
}

}  // namespace
}  // namespace mtf
