// Tests the pages that stand alone: what users name stays text, and everything is within the file.
#include <gmock/gmock.h>

#include "trainer/html/page.h"

namespace mtf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using OrderedJson = nlohmann::ordered_json;

TEST(HtmlPage, EscapesTextInTheTitle) {
  EXPECT_EQ(escaped_html(R"(<a href="x" title='y'>&)"),
            "&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;");
  EXPECT_THAT(html_page("</title><script>1", {}, OrderedJson::object()), Not(HasSubstr("</title><script>1")));
}

TEST(HtmlPage, DataCannotEndTheirScript) {
  const OrderedJson data{{"</script><script>alert(1)</script>", "<!-- <b>"}};
  const std::string text = script_json(data);
  EXPECT_THAT(text, Not(HasSubstr("<")));
  EXPECT_EQ(OrderedJson::parse(text), data);
}

TEST(HtmlPage, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(OrderedJson::parse(script_json({{"text", "a\xff"}}))["text"], "a\xef\xbf\xbd");
}

TEST(HtmlPage, StandsAlone) {
  const std::string page = html_page("title", {"charts.js", "report.js"}, {{"runs", OrderedJson::array()}});
  EXPECT_THAT(page, HasSubstr("<title>title</title>"));
  EXPECT_THAT(page, HasSubstr(R"({"runs":[]}</script>)"));
  EXPECT_THAT(page, HasSubstr("function curveChart("));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* loads : {"src=\"http", "href=\"http", "@import", "url(http", "{{"})
    EXPECT_THAT(page, Not(HasSubstr(loads)));
}

TEST(HtmlPage, ReplacesNothingWithinValues) {
  EXPECT_THAT(html_page("{{data}}", {}, OrderedJson::object()), HasSubstr("<title>{{data}}</title>"));
}

TEST(HtmlPage, SourcesContainNoEndOfTheirElement) {
  for (const HtmlSource& source : html_sources()) {
    if (source.name.ends_with(".html")) continue;
    EXPECT_THAT(std::string(source.text), Not(HasSubstr("</s"))) << source.name;
  }
}

}  // namespace
}  // namespace mtf
