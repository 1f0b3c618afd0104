#include "data/sources/table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "data/class_names.h"
#include "data/delimited.h"
#include "tests/data/data_testing.h"
#include "tests/support/failure.h"

namespace mtf::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

class Delimited : public FilesTest {
 protected:
  /// All records as "LINE:a|b".
  std::vector<std::string> records(const std::string& text, Delimiter delimiter = Delimiter::kComma) const {
    DelimitedReader reader(file("f.csv", text), delimiter);
    std::vector<std::string> result;
    while (reader.next()) {
      std::string record = std::to_string(reader.line()) + ":";
      for (const std::string& field : reader.fields()) record += field + "|";
      result.push_back(record);
    }
    return result;
  }
};

TEST_F(Delimited, ValuesMayStandInQuotes) {
  EXPECT_THAT(records("a,b\n\"1,\n2\",\"say \"\"x\"\"\"\nc,\n"),
              ElementsAre("1:a|b|", "2:1,\n2|say \"x\"|", "4:c||"));
  EXPECT_THAT(records("\xef\xbb\xbf"
                      "a,b\r\n\"c\",d\r\n\r\n\ne,f"),
              ElementsAre("1:a|b|", "2:c|d|", "5:e|f|"));
  EXPECT_THAT(records("\"a\"\tb,c\n", Delimiter::kTab), ElementsAre("1:\"a\"|b,c|"));
  EXPECT_THAT(records(""), ElementsAre());
  EXPECT_THAT(records("a\n\"\"\n"), ElementsAre("1:a|"));
}

TEST_F(Delimited, WrongQuotesNameTheLine) {
  EXPECT_THAT(failure([&] { records("a,b\nc,\"d\n\n"); }),
              AllOf(HasSubstr("f.csv:2"), HasSubstr("not closed")));
  EXPECT_THAT(failure([&] { records("a\n\"b\"c\n"); }), AllOf(HasSubstr("f.csv:2"), HasSubstr("follows")));
}

class Table : public FilesTest {
 protected:
  std::string iris() const {
    return file("iris.csv",
                "length,width,color,species\n"
                "1,10,red,setosa\n"
                "3,20,blue,virginica\n"
                "\"5\", 30 ,red,setosa\n");
  }
  static TableColumns columns() {
    TableColumns columns;
    columns.categorical = {"color"};
    columns.labels = "species";
    return columns;
  }
};

TEST_F(Table, ColumnsBecomeFeatures) {
  const auto source = open_table({iris()}, columns(), {});
  EXPECT_EQ(source->examples(), 3);
  ASSERT_EQ(source->features().size(), 2u);
  EXPECT_EQ(source->features()[0], (Feature{"x", {{"inputs", 4}}, DType::kFloat32}));
  EXPECT_EQ(source->features()[1], (Feature{"labels", {}, DType::kInt32}));
  EXPECT_THAT(source->class_names(), ElementsAre("setosa", "virginica"));
  EXPECT_THAT(values_of<float>(*source, "x", 0), ElementsAre(1, 10, 0, 1));
  EXPECT_THAT(values_of<float>(*source, "x", 1), ElementsAre(3, 20, 1, 0));
  EXPECT_THAT(values_of<float>(*source, "x", 2), ElementsAre(5, 30, 0, 1));
  EXPECT_THAT(values_of<int32_t>(*source, "labels", 1), ElementsAre(1));
  source->check_labels({2});
  EXPECT_THAT(
      failure([&] { source->check_labels({1}); }),
      AllOf(HasSubstr("iris.csv:3: column `species`: `virginica` is label 1, but there are 1 classes"),
            HasSubstr("or 2 classes in the model")));
}

TEST_F(Table, WordsAreNumbersInMemoryAndInputsWhereTheyAreRead) {
  std::string text = "word,length,kind\n";
  for (int i = 0; i < 100; ++i) text += fmt::format("w{:02},{},{}\n", 99 - i, i, i % 2);
  TableColumns how;
  how.categorical = {"word"};
  how.labels = "kind";
  const auto source = open_table({file("words.csv", text)}, how, {});
  EXPECT_EQ(source->features()[0].shape, (Shape{{"inputs", 101}}));
  EXPECT_EQ(source->bytes_in_memory(), 100 * (3 * 4 + 8));
  std::vector<float> expected(101, 0);
  expected[92] = 1;
  expected[100] = 7;
  EXPECT_EQ(values_of<float>(*source, "x", 7), expected);
  EXPECT_THAT(values_of<int32_t>(*source, "labels", 7), ElementsAre(1));
  expect_boxes_of_the_whole(*source, 0);
}

TEST_F(Table, TargetsAreNumbers) {
  TableColumns columns;
  columns.inputs = {"width"};
  columns.targets = {"length"};
  const auto source = open_table({iris()}, columns, {});
  EXPECT_EQ(source->features()[1], (Feature{"y", {{"targets", 1}}, DType::kFloat32}));
  EXPECT_THAT(values_of<float>(*source, "x", 1), ElementsAre(20));
  EXPECT_THAT(values_of<float>(*source, "y", 1), ElementsAre(3));
}

TEST_F(Table, JsonLinesAreTheSame) {
  const std::string path = file("t.jsonl",
                                "{\"a\": 1.5, \"b\": true, \"kind\": 2}\n\n"
                                "{\"kind\": 0, \"b\": false, \"a\": -1e2}\r\n");
  TableColumns columns;
  columns.labels = "kind";
  const auto source = open_table({path}, columns, {});
  EXPECT_THAT(values_of<float>(*source, "x", 0), ElementsAre(1.5, 1));
  EXPECT_THAT(values_of<float>(*source, "x", 1), ElementsAre(-100, 0));
  EXPECT_THAT(values_of<int32_t>(*source, "labels", 0), ElementsAre(2));
  EXPECT_TRUE(source->class_names().empty());
  EXPECT_THAT(failure([&] { source->check_labels({2}); }),
              HasSubstr("t.jsonl:1: column `kind`: label 2, but"));
  const auto refused = [&](const std::string& text) {
    return failure([&] { open_table({file("bad.jsonl", text)}, columns, {}); }, ErrorKind::kData);
  };
  const std::string good = "{\"a\": 1, \"b\": 1, \"kind\": 2}\n";
  EXPECT_THAT(refused(good + "{\"a\": 1,"), HasSubstr("bad.jsonl:2"));
  EXPECT_THAT(refused(good + "[1]"), HasSubstr("no object"));
  EXPECT_THAT(refused(good + "{\"a\": [1], \"b\": 1, \"kind\": 2}"), HasSubstr("list"));
  EXPECT_THAT(refused(good + "{\"a\": 1, \"kind\": 2}"),
              AllOf(HasSubstr("bad.jsonl:2: column `b`"), HasSubstr("missing")));
  EXPECT_THAT(refused(good + "{\"c\": 1}"), HasSubstr("a key `c`"));
  EXPECT_THAT(refused("{\"a\": {}, \"b\": 1, \"kind\": 2}\n"),
              HasSubstr("bad.jsonl:1: column `a`: a list or an object"));
  EXPECT_THAT(refused(good + "{\"a\": 1, \"a\": 2, \"kind\": 2}"), HasSubstr("two values of `a`"));
  EXPECT_THAT(refused(""), HasSubstr("empty"));
}

TEST_F(Table, KeysThatAreNotUsedMayHoldAnythingAndComeAndGo) {
  TableColumns columns;
  columns.inputs = {"a"};
  columns.labels = "kind";
  const std::string path = file("t.jsonl",
                                "{\"a\": 1, \"by\": [\"x\", {}], \"kind\": 0}\n"
                                "{\"a\": 2, \"kind\": 1, \"note\": {\"y\": null}}\n");
  const auto source = open_table({path}, columns, {});
  EXPECT_THAT(values_of<float>(*source, "x", 1), ElementsAre(2));
  // Without `inputs` those of the training data are used.
  columns.inputs.clear();
  EXPECT_EQ(open_table({path}, columns, {.mark = {}, .preparation = source->preparation(), .counts = {}})
                ->examples(),
            2);
}

TEST_F(Table, NormalizedInputsHaveMeanZeroAndDeviationOne) {
  TableColumns how = columns();
  how.normalize = true;
  const auto train = open_table({iris()}, how, {});
  const float part = std::sqrt(1.5f);
  EXPECT_THAT(values_of<float>(*train, "x", 0),
              ElementsAre(FloatNear(-part, 1e-6f), FloatNear(-part, 1e-6f), 0, 1));
  EXPECT_THAT(values_of<float>(*train, "x", 1), ElementsAre(0, 0, 1, 0));
  // Other data have the means, words and classes of the training data.
  const std::string dev = file("dev.csv", "color,length,width,species\nred,3,30,virginica\n");
  const TableContext context{.mark = {}, .preparation = train->preparation(), .counts = {}};
  const auto source = open_table({dev}, how, context);
  EXPECT_THAT(values_of<float>(*source, "x", 0), ElementsAre(0, FloatNear(part, 1e-6f), 0, 1));
  EXPECT_THAT(values_of<int32_t>(*source, "labels", 0), ElementsAre(1));
  EXPECT_EQ(source->preparation(), train->preparation());
  // What is predicted needs neither labels nor targets.
  const std::string bare = file("bare.csv", "width,color,length\n30,red,3\n");
  const auto unlabelled = open_table(
      {bare}, how, {.mark = {}, .preparation = train->preparation(), .labelled = false, .counts = {}});
  EXPECT_EQ(values_of<float>(*unlabelled, "x", 0), values_of<float>(*source, "x", 0));
  EXPECT_EQ(unlabelled->features().size(), 1u);
  EXPECT_EQ(unlabelled->class_names(), train->class_names());
  how.normalize = false;
  EXPECT_THAT(failure([&] { open_table({dev}, how, context); }), HasSubstr("`normalize: true`"));
  how.normalize = true;
  EXPECT_THAT(failure([&] {
                open_table({file("d.csv", "color,length,width,species\ngreen,3,30,virginica\n")}, how,
                           context);
              }),
              AllOf(HasSubstr("d.csv:2: column `color`"), HasSubstr("no `green`")));
  EXPECT_THAT(failure([&] {
                open_table({file("d.csv", "color,length,width,species\nred,3,30,rose\n")}, how, context);
              }),
              HasSubstr("no class `rose`"));
}

TEST_F(Table, WhatTrainedWeightsNeedToKnowIsNotTakenFromOtherData) {
  const TableContext evaluated{.mark = {}, .preparation = {}, .prepares = false, .counts = {}};
  const auto refused = [&](const TableColumns& how) {
    return failure([&] { open_table({iris()}, how, evaluated); }, ErrorKind::kConfig);
  };
  TableColumns how = columns();
  EXPECT_THAT(refused(how), HasSubstr("the words of the training data are not known: no data.json"));
  how.normalize = true;
  EXPECT_THAT(refused(how), HasSubstr("the means and deviations of the training data"));
  how = {};
  how.labels = "species";
  EXPECT_THAT(refused(how), HasSubstr("the columns of the training data"));
  how.inputs = {"width"};
  EXPECT_THAT(refused(how), AllOf(HasSubstr("the names of the classes"), HasSubstr("`classes`")));
  how.classes = {"virginica", "setosa"};
  EXPECT_THAT(values_of<int32_t>(*open_table({iris()}, how, evaluated), "labels", 0), ElementsAre(1));
  how.classes = {};
  how.labels = "length";
  EXPECT_THAT(values_of<int32_t>(*open_table({iris()}, how, evaluated), "labels", 0), ElementsAre(1));
}

TEST_F(Table, LabelsAreTheNumbersOfTrainingDataOfAnotherType) {
  TableColumns how;
  how.inputs = {"width"};
  how.labels = "species";
  for (const std::string_view numbers : {std::string_view(), kNumberedClasses}) {
    const TableContext evaluated{.mark = {}, .preparation = std::string(numbers), .counts = {}};
    how.labels = "species";
    EXPECT_THAT(failure([&] { open_table({iris()}, how, evaluated); }, ErrorKind::kData),
                HasSubstr("is no whole number; the number of a class, as in the training data"));
    how.labels = "length";
    EXPECT_THAT(values_of<int32_t>(*open_table({iris()}, how, evaluated), "labels", 0), ElementsAre(1));
  }
  how.normalize = true;
  const TableContext trained{
      .mark = {}, .preparation = std::string(kNumberedClasses), .prepares = false, .counts = {}};
  EXPECT_THAT(failure([&] { open_table({iris()}, how, trained); }, ErrorKind::kConfig),
              HasSubstr("the means and deviations of the training data are not known"));
}

TEST_F(Table, NumbersOfNoClassDoNotMakeNamesOfTheOthers) {
  TableColumns how;
  how.labels = "k";
  const std::string table = file("t.csv", "x,k\n1,0\n2,1\n3,-1\n");
  EXPECT_THAT(
      failure([&] { open_table({table}, how, {}); }, ErrorKind::kData),
      AllOf(HasSubstr("t.csv:4"), HasSubstr("`-1` is not the number of a class, but other labels are")));
  how.classes = {"-1", "0", "1"};
  EXPECT_THAT(values_of<int32_t>(*open_table({table}, how, {}), "labels", 2), ElementsAre(0));
  how.classes = {};
  const auto words = [&](const std::string& lines) {
    return open_table({file("w.csv", "x,k\n" + lines)}, how, {})->class_names();
  };
  EXPECT_THAT(words("1,1\n2,-1\n"), ElementsAre("-1", "1"));
  EXPECT_THAT(words("1,250\n2,250.1\n3,401.9\n"), ElementsAre("250", "250.1", "401.9"));
  EXPECT_THAT(words("1,1\n2,1.5\n3,2\n4,2.5\n5,3\n"), ElementsAre("1", "1.5", "2", "2.5", "3"));
}

TEST_F(Table, OtherDataHaveTheColumnsOfWordsOfTheTrainingData) {
  const auto train = open_table({iris()}, columns(), {});
  const auto refused = [&](const std::vector<config::Name>& words, const std::string& preparation) {
    TableColumns how = columns();
    how.inputs = {"length", "width", "color"};
    how.categorical = words;
    const TableContext context{.mark = {}, .preparation = preparation, .counts = {}};
    return failure([&] { open_table({iris()}, how, context); }, ErrorKind::kConfig);
  };
  EXPECT_THAT(refused({}, train->preparation()),
              AllOf(HasSubstr("`categorical` has nothing, and that of the training data color"),
                    HasSubstr("`categorical: [color]`, as in data.train")));
  EXPECT_THAT(refused({"width"}, train->preparation()), HasSubstr("`categorical` has width"));
  TableColumns numbers = columns();
  numbers.inputs = {"length", "width"};
  numbers.categorical.clear();
  const auto fewer = open_table({iris()}, numbers, {});
  EXPECT_THAT(
      refused({"color"}, fewer->preparation()),
      HasSubstr("the inputs are length, width, color, and those of the training data are length, width"));
}

TEST_F(Table, WhatIsNoUtf8IsRefused) {
  const auto refused = [&](const std::string& name, const std::string& text) {
    TableColumns how;
    how.labels = "kind";
    return failure([&] { open_table({file(name, text)}, how, {}); }, ErrorKind::kData);
  };
  EXPECT_THAT(refused("t.csv", "a,kind\n1,gelb\n2,Gr\xf6n\n"),
              AllOf(HasSubstr("t.csv:3: column `kind`: no UTF-8: byte \\xf6 after 2 characters"),
                    HasSubstr("`iconv -f ISO-8859-1 -t UTF-8`")));
  EXPECT_THAT(refused("t.tsv", "Gr\xf6n\tkind\n1\tgelb\n"),
              HasSubstr("t.tsv:1: column `Gr\\xf6n`: no UTF-8: byte \\xf6"));
  EXPECT_THAT(refused("t.jsonl", "{\"a\": 1, \"kind\": \"Gr\xf6n\"}\n"), HasSubstr("line 1: no UTF-8"));
  EXPECT_EQ(refused("t.csv", "a,kind\n1,gelb\n2,Gr\xc3\xbcn\n"), "no error");
}

TEST_F(Table, ColumnsThatAreNotUsedMayHaveAnyBytes) {
  TableColumns how;
  how.inputs = {"a"};
  how.labels = "kind";
  const std::string csv = file("t.csv", "a,Gr\xf6n,kind\n1,\xff,gelb\n2,x,blau\n");
  for (const std::string& path : {csv, file("t.tsv", "a\tGr\xf6n\tkind\n1\t\xff\tgelb\n2\tx\tblau\n")}) {
    const auto source = open_table({path}, how, {});
    EXPECT_THAT(values_of<float>(*source, "x", 1), ElementsAre(2));
    EXPECT_THAT(source->class_names(), ElementsAre("blau", "gelb"));
  }
  how.inputs = {"Gr\xc3\xb6n"};
  EXPECT_THAT(
      failure([&] { open_table({csv}, how, {}); }),
      AllOf(HasSubstr("no column `Gr\xc3\xb6n`; one of `a`, `Gr\\xf6n`, `kind`; or convert it to UTF-8"),
            HasSubstr("iconv")));
}

TEST_F(Table, NumbersAreTheNearestOf32Bits) {
  TableColumns how;
  how.targets = {"y"};
  const auto source = open_table({file("t.csv", "x,y\n1e-50,+2\n-1e-400,1e-45\n0.1,3e38\n")}, how, {});
  EXPECT_THAT(values_of<float>(*source, "x", 0), ElementsAre(0));
  EXPECT_THAT(values_of<float>(*source, "x", 1), ElementsAre(0));
  EXPECT_THAT(values_of<float>(*source, "x", 2), ElementsAre(0.1f));
  EXPECT_THAT(values_of<float>(*source, "y", 0), ElementsAre(2));
  EXPECT_THAT(values_of<float>(*source, "y", 1), ElementsAre(std::numeric_limits<float>::denorm_min()));
  for (const char* large : {"1e39", "-1e400"})
    EXPECT_THAT(failure([&] { open_table({file("t.csv", fmt::format("x,y\n{},1\n", large))}, how, {}); }),
                AllOf(HasSubstr("is no number of 32 bits"), HasSubstr("a smaller number")));
}

TEST_F(Table, MeansAreThoseOfTheExamplesThatCount) {
  TableColumns how;
  how.inputs = {"width"};
  how.targets = {"length"};
  how.normalize = true;
  std::vector<uint64_t> hashes;
  const auto all = open_table({iris()}, how, {});
  for (int64_t i = 0; i < 3; ++i) hashes.push_back(all->example_hash(i));
  TableContext context;
  context.counts = [&](uint64_t hash) { return hash != hashes[2]; };
  EXPECT_THAT(values_of<float>(*open_table({iris()}, how, context), "x", 2),
              ElementsAre(FloatNear(3, 1e-6f)));
}

TEST_F(Table, WrongValuesNameFileLineAndColumn) {
  const auto refused = [&](const std::string& text, TableColumns how = columns()) {
    return failure([&] { open_table({file("bad.csv", text)}, how, {}); });
  };
  const std::string head = "length,width,color,species\n";
  EXPECT_THAT(refused(head + "1,x,red,setosa\n"),
              AllOf(HasSubstr("bad.csv:2: column `width`"), HasSubstr("`x` is no number")));
  EXPECT_THAT(refused(head + "1,,red,setosa\n"), AllOf(HasSubstr("bad.csv:2"), HasSubstr("missing")));
  EXPECT_THAT(refused(head + "1,NA,red,setosa\n"), HasSubstr("missing"));
  EXPECT_THAT(refused(head + "1,1e99,red,setosa\n"), HasSubstr("32 bits"));
  EXPECT_THAT(refused(head + "1,inf,red,setosa\n"), HasSubstr("no number"));
  EXPECT_THAT(refused(head + "1,2,red\n"), AllOf(HasSubstr("bad.csv:2: 3 values"), HasSubstr("4, as")));
  EXPECT_THAT(refused(head), HasSubstr("no examples"));
  EXPECT_THAT(refused(""), HasSubstr("empty"));
  EXPECT_THAT(refused("a,a\n1,2\n"), HasSubstr("two columns"));
  EXPECT_THAT(refused("a,\n1,2\n"), HasSubstr("column 2 has no name"));
  TableColumns how = columns();
  how.labels = "specie";
  EXPECT_THAT(refused(head + "1,2,red,setosa\n", how),
              AllOf(HasSubstr("no column `specie`"), HasSubstr("`species`")));
  how = columns();
  how.classes = {"setosa"};
  EXPECT_THAT(refused(head + "1,2,red,rose\n", how), HasSubstr("no class `rose`"));
  EXPECT_THAT(failure([&] { open_table({file("t.xls", "")}, columns(), {}); }),
              HasSubstr(".csv, .tsv or .jsonl"));
}

}  // namespace
}  // namespace mtf::testing
