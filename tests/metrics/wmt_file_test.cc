#include "trainer/metrics/wmt_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/base/error.h"
#include "tests/support/failure.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WmtFile : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ + name) << text;
    return directory_ + name;
  }

  std::string directory_ =
      ::testing::TempDir() + ::testing::UnitTest::GetInstance()->current_test_info()->name() + "/";
};

constexpr const char* kSgm = R"(<refset setid="newstest2014" srclang="any" trglang="de">
<doc sysid="ref" docid="1" genre="news" origlang="en">
<hl>
<seg id="1">Ein  Titel &amp; mehr</seg>
</hl>
<p>
<SEG id="2"> Der Satz
geht weiter. </SEG>
<seg id="3"></seg>
</p>
</doc>
</refset>
)";

TEST_F(WmtFile, IsKnownByItsEnding) {
  for (const char* name : {"a.sgm", "a.sgml", "a.xml", "a.sgm.gz", "A.SGM"})
    EXPECT_TRUE(is_wmt_file(name)) << name;
  for (const char* name : {"a.txt", "sgm", "a.gz", "a.xml.de"}) EXPECT_FALSE(is_wmt_file(name)) << name;
}

TEST_F(WmtFile, SgmHasItsSegmentsInOrderWithEntitiesAsTheyAre) {
  const std::string path = file("ref.sgm", kSgm);
  EXPECT_THAT(read_wmt_references(path).references,
              ElementsAre(ElementsAre("Ein Titel &amp; mehr", "Der Satz geht weiter.", "")));
  EXPECT_THAT(read_wmt_hypothesis(path), ElementsAre("Ein Titel &amp; mehr", "Der Satz geht weiter.", ""));
}

TEST_F(WmtFile, SaysWhereSentencesAreFrom) {
  const std::string sgm =
      "<refset>\n<doc docid=\"1\" origlang=\"en\">\n<seg id=\"1\">a</seg>\n<seg id=\"2\">b</seg>\n</doc>\n"
      "<DOC origlang=\"de\">\n<seg id=\"1\">c</seg>\n</DOC>\n</refset>\n";
  std::vector<std::string> languages;
  for (const SentenceOrigin& origin : read_wmt_references(file("ref.sgm", sgm)).origins)
    languages.push_back(origin.language);
  EXPECT_THAT(languages, ElementsAre("en", "en", "de"));
  const std::string xml =
      "<dataset><doc id='1' origlang='cs' domain='news'><src><p><seg id='1'>a</seg></p></src>"
      "<ref translator='A'><p><seg id='1'>b</seg></p></ref></doc></dataset>";
  const std::vector<SentenceOrigin> origins = read_wmt_references(file("ref.xml", xml)).origins;
  ASSERT_EQ(origins.size(), 1u);
  EXPECT_EQ(origins[0].language, "cs");
  EXPECT_EQ(origins[0].domain, "news");
}

TEST_F(WmtFile, SgmMustCloseItsSegments) {
  EXPECT_THAT(
      failure([&] { read_wmt_references(file("bad.sgm", "<doc>\n<seg id=\"1\">Ein Satz\n</doc>\n")); }),
      HasSubstr("bad.sgm: line 2: <seg> is not closed"));
  EXPECT_THAT(
      failure([&] { read_wmt_references(file("open.sgm", "<seg id=1>Eins\n<seg id=2>Zwei</seg>\n")); }),
      HasSubstr("open.sgm: line 1: <seg> is not closed"));
  EXPECT_THAT(failure([&] { read_wmt_references(file("no.sgm", "Ein Satz\n")); }),
              HasSubstr("no.sgm: no sentence"));
}

TEST_F(WmtFile, SgmHasEmptySegmentsAndOtherTags) {
  const std::string path =
      file("tags.sgm", "<segment>\n<seg>Eins</seg>\n<seg id=2/>\n<seg\tid=3>Drei</seg></segment>\n");
  EXPECT_THAT(read_wmt_references(path).references, ElementsAre(ElementsAre("Eins", "", "Drei")));
}

constexpr const char* kXml = R"(<?xml version='1.0' encoding='utf-8'?>
<dataset id="newstest2021">
  <collection id="general">
  <doc origlang="en" id="one">
    <src lang="en"><p><seg id="2">Second</seg></p><p><seg id="1">First &amp; more</seg><seg id="3">Third</seg></p></src>
    <ref lang="de" translator="B"><p><seg id="1">Erster B</seg></p></ref>
    <ref lang="de" translator="A"><p><seg id="1">Erster &lt;A&gt;</seg><seg id="2">Zweiter A</seg></p></ref>
    <hyp system="ours" language="de"><p><seg id="1">Eins</seg><seg id="2">Zwei</seg><seg id="3">Drei</seg></p></hyp>
  </doc>
  <doc origlang="en" id="suite" testsuite="t"><src lang="en"><seg id="1">Not this</seg></src></doc>
  </collection>
</dataset>
)";

TEST_F(WmtFile, XmlHasAReferenceOfEachTranslatorForSentencesThatHaveAny) {
  const std::string path = file("newstest.xml", kXml);
  EXPECT_THAT(read_wmt_references(path).references,
              ElementsAre(ElementsAre("Erster <A>", "Zweiter A"), ElementsAre("Erster B", "")));
  EXPECT_THAT(read_wmt_hypothesis(path), ElementsAre("Eins", "Zwei"));
}

std::string xml_of(const std::string& inside) {
  return "<?xml version='1.0' encoding='iso-8859-1'?>\n<dataset><doc id=\"one\">" + inside +
         "</doc></dataset>\n";
}

TEST_F(WmtFile, XmlSentencesAreAllOfTheirText) {
  const std::string path =
      file("text.xml",
           xml_of("<src><seg id='1'>a</seg></src><ref><seg id='1'>Für <![CDATA[R&D]]><!-- no --> <b>und</b> "
                  "<i>mehr</i>&#33;</seg></ref>"));
  EXPECT_THAT(read_wmt_references(path).references, ElementsAre(ElementsAre("Für R&D und mehr!")))
      << "UTF-8, whatever the declaration says";
}

TEST_F(WmtFile, XmlMayLackItsSource) {
  const std::string system = file("out.xml", xml_of("<hyp system='x'><seg id='1'>R&amp;D</seg></hyp>"));
  EXPECT_THAT(read_wmt_hypothesis(system), ElementsAre("R&D"));
  EXPECT_THAT(
      failure([&] { read_wmt_references(file("src.xml", xml_of("<src><seg id='1'>a</seg></src>"))); }),
      HasSubstr("src.xml: no reference"));
}

TEST_F(WmtFile, XmlLosesNoSentence) {
  const auto error = [&](const std::string& inside) {
    return failure([&] { read_wmt_hypothesis(file("bad.xml", xml_of(inside))); });
  };
  EXPECT_THAT(error("<src><seg>a</seg><seg>b</seg></src>"),
              HasSubstr("bad.xml: line 2: <seg> has no number"));
  EXPECT_THAT(error("<src><seg id='x1'>a</seg></src>"), HasSubstr("<seg> has no number"));
  EXPECT_THAT(error("<src><seg id='1'>a</seg>\n<seg id='1'>b</seg></src>"),
              HasSubstr("bad.xml: line 3: there are two <seg id=\"1\">"));
  EXPECT_THAT(
      error("<src><seg id='1'>a</seg><seg id='2'>b</seg></src><hyp system='x'><seg id='2'>B</seg></hyp>"),
      HasSubstr("bad.xml: system `x` lacks sentence 1 of document `one`"));
}

TEST_F(WmtFile, XmlWithoutDocumentsOfWmtIsReadAsSgm) {
  const std::string path = file(
      "iwslt.xml", "<mteval>\n<refset>\n<doc>\n<seg id=\"1\"> Ein Satz </seg>\n</doc></refset></mteval>\n");
  EXPECT_THAT(read_wmt_references(path).references, ElementsAre(ElementsAre("Ein Satz")));
}

TEST_F(WmtFile, XmlMustBeWellFormedAndHaveOneSystem) {
  EXPECT_THAT(failure([&] { read_wmt_references(file("bad.xml", "<dataset>\n<doc>\n</dataset>\n")); }),
              HasSubstr("bad.xml: line 3: "));
  std::string two = kXml;
  two.insert(two.find("<hyp"), "<hyp system=\"other\"><seg id=\"1\">Uno</seg></hyp>");
  EXPECT_THAT(failure([&] { read_wmt_hypothesis(file("two.xml", two)); }),
              HasSubstr("two.xml: 2 systems (<hyp>), not one"));
}

}  // namespace
}  // namespace mtf
