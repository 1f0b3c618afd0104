// Tests train.microbatches: auto: the fewest microbatches that fit, and what a run that continues keeps.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "trainer/costs/choose_microbatches.h"
#include "trainer/costs/prediction.h"
#include "trainer/memory/memory_check.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A network whose temporaries are its largest part.
Session open_network(std::vector<std::string> arguments) {
  const std::vector<std::string> network = {
      "vars.io_size=64",     "vars.hidden_size=512", "vars.more_pairs=1",     "optimizer=adam",
      "learning_rate=0.001", "train.steps=3",        "train.batch_size=4800", "run.model_dir=never_written",
  };
  arguments.insert(arguments.begin(), network.begin(), network.end());
  Diagnostics diagnostics;
  Session session = open_session({MTF_SOURCE_DIR "/configs/models/toy.yaml"}, arguments, diagnostics);
  diagnostics.throw_if_errors();
  return session;
}

int64_t bytes_needed(const Session& session, int64_t microbatches) {
  TrainStepOptions options = train_step_options(session.config, session.layouts, 3);
  options.microbatches = microbatches;
  const TrainStep step = build_train_step(*session.model, session.train_data->features(), options);
  const Program program = compile(session, *step.graph);
  return memory_need(session, {&program}, memory_use(session, true, {}, {})).host.total();
}

MicrobatchChoice chosen(Session& session, int64_t limit, const std::optional<int64_t>& number_before = {}) {
  std::optional<EarlierRecompute> before;
  if (number_before) before = EarlierRecompute{.microbatches = *number_before};
  session.config.run.memory_limit.value = config::Bytes{limit};
  return choose_microbatches(session, train_step_options(session.config, session.layouts, 3), nullptr,
                             memory_use(session, true, {}, {}), before);
}

const std::vector<std::vector<std::string>> kMicrobatchLayouts = {
    {"train.microbatches=auto"},
    {"train.microbatches=auto", "mesh=x:2", "layout=batch:x"},
    {"train.microbatches=auto", "mesh=y:2", "layout=hidden_odd:y"},
    {"train.microbatches=auto", "mesh=x:2;y:2", "layout=batch:x;hidden_odd:y"},
    {"train.microbatches=auto", "mesh=all:8", "layout=batch:all"},
};

TEST(Microbatches, AutoIsTheFewestThatFit) {
  for (const std::vector<std::string>& layout : kMicrobatchLayouts) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(layout, " ")));
    Session session = open_network(layout);
    EXPECT_EQ(chosen(session, bytes_needed(session, 1)).count, 1);
    for (const int64_t count : {3, 5}) {
      const int64_t limit = bytes_needed(session, count);
      ASSERT_GT(bytes_needed(session, count - 1), limit);
      const MicrobatchChoice choice = chosen(session, limit);
      EXPECT_EQ(choice.count, count);
      EXPECT_THAT(choice.reason, StartsWith(fmt::format("train.microbatches: auto is {}: fewer do not fit "
                                                        "(the run needs ",
                                                        count)));
      EXPECT_THAT(choice.reason, HasSubstr("run.memory_limit"));
    }
  }
}

TEST(Microbatches, EachMicrobatchIsAsDivisibleAsTheLayoutWants) {
  // 75 examples for each position: no number that does not divide 75 is tried.
  Session session = open_network({"train.microbatches=auto", "mesh=all:64", "layout=batch:all"});
  EXPECT_EQ(chosen(session, 1000).count, 75);
}

TEST(Microbatches, WhereNothingFitsTheLargestNumberIsTaken) {
  Session session = open_network({"train.microbatches=auto"});
  const MicrobatchChoice choice = chosen(session, 1000);
  EXPECT_EQ(choice.count, 4800);
  EXPECT_THAT(choice.reason, HasSubstr("no number fits"));
}

TEST(Microbatches, ARunThatContinuesKeepsItsNumberWhileThatFits) {
  Session session = open_network({"train.microbatches=auto"});
  const int64_t plenty = bytes_needed(session, 1), scarce = bytes_needed(session, 4);
  EXPECT_EQ(chosen(session, plenty, 4).count, 4);
  EXPECT_EQ(chosen(session, plenty, 4).reason, "train.microbatches: auto is 4, as in the run so far");
  EXPECT_EQ(chosen(session, scarce, 2).count, 4);
  EXPECT_EQ(chosen(session, plenty, 7).count, 1);  // 7 does not divide the batch
}

}  // namespace
}  // namespace mtf::testing
