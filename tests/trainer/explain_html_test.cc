// Tests the page of run.mode=explain: the schedule of a step has the work and the traffic that the other parts of
// the explanation have, and repeated layers take the room of one.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "trainer/explain/explanation_html.h"
#include "trainer/explain/explanation_json.h"
#include "trainer/explain/name_pattern.h"

namespace mtf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using OrderedJson = nlohmann::ordered_json;

Explanation explanation_of(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = arguments;
  all.insert(all.end(), {"run.model_dir=never/written", "run.mode=explain"});
  Diagnostics diagnostics;
  const Session session = open_session({MTF_SOURCE_DIR "/configs/models/toy.yaml"}, all, diagnostics);
  diagnostics.throw_if_errors();
  return make_explanation(session, diagnostics);
}

struct Totals {
  double flops = 0, bytes_sent = 0;
  std::set<int64_t> started, awaited;
};

/// Adds up a schedule of explanation_document().
void add_up(const OrderedJson& schedule, double times, Totals& totals) {
  for (const OrderedJson& item : schedule) {
    if (item.contains("repeat")) {
      add_up(item["body"], times * item["repeat"].get<double>(), totals);
    } else if (item.contains("start")) {
      totals.bytes_sent += times * item["bytes_sent"].get<double>();
      totals.started.insert(item["start"].get<int64_t>());
    } else if (item.contains("wait")) {
      for (const OrderedJson& message : item["wait"]) totals.awaited.insert(message.get<int64_t>());
    } else if (item.contains("message")) {  // within the process
      totals.bytes_sent += times * item["bytes"].get<double>();
      totals.started.insert(item["message"].get<int64_t>());
    } else {
      totals.flops += times * item["flops"].get<double>();
    }
  }
}

class ScheduleOfLayout : public ::testing::TestWithParam<std::vector<std::string>> {};

INSTANTIATE_TEST_SUITE_P(
    ExplainHtml, ScheduleOfLayout,
    ::testing::Values(std::vector<std::string>{}, std::vector<std::string>{"mesh=all:4", "layout=batch:all"},
                      std::vector<std::string>{"mesh=rows:2;cols:2", "layout=batch:rows;hidden_odd:cols",
                                               "train.microbatches=2"},
                      std::vector<std::string>{"mesh=all:4", "layout=batch:all",
                                               "parameter_layout=hidden_odd:all"},
                      std::vector<std::string>{"mesh=all:4", "layout=batch:all",
                                               "parameter_layout=hidden_odd:all", "cluster.processes=2"}));

TEST_P(ScheduleOfLayout, HasTheWorkAndTheTrafficOfTheStep) {
  const OrderedJson document = explanation_document(explanation_of(GetParam()), true);
  Totals totals;
  add_up(document["schedule"], 1, totals);
  EXPECT_DOUBLE_EQ(totals.flops, document["step"]["flops"].get<double>());
  EXPECT_DOUBLE_EQ(totals.bytes_sent, document["step"]["bytes_sent"].get<double>());
  std::set<int64_t> messages;
  for (const OrderedJson& collective : document["collectives"])
    messages.insert(collective["message"].get<int64_t>());
  EXPECT_EQ(totals.started, messages);
  EXPECT_TRUE(std::ranges::includes(messages, totals.awaited));
}

TEST(ExplainHtml, NamesModelAndLayout) {
  const OrderedJson document =
      explanation_document(explanation_of({"mesh=all:4", "layout=batch:all"}), false);
  EXPECT_EQ(document["model"]["name"], "written");
  EXPECT_EQ(document["model"]["type"], "regression");
  EXPECT_GT(document["model"]["parameters"], 0);
  EXPECT_EQ(document["layout"]["layout"],
            OrderedJson::parse(R"([{"dimension": "batch", "mesh_dimensions": ["all"]}])"));
}

TEST(ExplainHtml, FoldsRepeatedLayers) {
  const OrderedJson list = OrderedJson::parse(R"([
    {"name": "block_0/a", "message": 0, "bytes": 4}, {"name": "block_0/b", "message": 1, "bytes": 8},
    {"name": "block_1/a", "message": 2, "bytes": 4}, {"name": "block_2/a", "message": 3, "bytes": 4}])");
  EXPECT_EQ(folded(list, {"name"}), OrderedJson::parse(R"([
    {"name": "block_*/a", "message": 0, "bytes": 4, "count": 3},
    {"name": "block_0/b", "message": 1, "bytes": 8, "count": 1}])"));
}

TEST(ExplainHtml, NamesHaveAPattern) {
  EXPECT_EQ(name_pattern({"a_1/b_2", "a_1/b_3"}), "a_1/b_*");
  EXPECT_EQ(without_numbers("a_1/b_22c"), "a_*/b_*c");
}

TEST(ExplainHtml, DeepModelsTakeLittleMoreRoom) {
  const size_t shallow = explain_html(explanation_of({"vars.more_pairs=4"}), true).size();
  const size_t deep = explain_html(explanation_of({"vars.more_pairs=200"}), true).size();
  EXPECT_LT(deep, shallow + 200 * 2000);
}

TEST(ExplainHtml, NamesOfUsersStayText) {
  const std::string page = explain_html(explanation_of({"mesh={'<script>alert(1)</script>': 2}",
                                                        "layout={batch: '<script>alert(1)</script>'}"}),
                                        true);
  EXPECT_THAT(page, HasSubstr("\\u003cscript\\u003ealert(1)"));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert(1)")));
}

}  // namespace
}  // namespace mtf
