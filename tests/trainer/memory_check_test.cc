#include "trainer/memory/memory_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <regex>

#include "engine/runtime/memory_plan.h"
#include "engine/runtime/variable_store.h"
#include "trainer/decode/decoding_memory.h"

namespace mtf::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// A network of three layers of width 512 with Adam: 9.4 MB of weights and slots.
const std::vector<std::string> kNetwork = {
    "vars.io_size=512",    "vars.hidden_size=512", "vars.more_pairs=1",     "optimizer=adam",
    "learning_rate=0.001", "train.steps=3",        "train.batch_size=4096", "run.model_dir=never_written",
};

/// A run of the network up to the point at which memory is checked.
struct Planned {
  explicit Planned(const std::vector<std::string>& arguments) : session(open(arguments)) {
    Diagnostics diagnostics;
    const std::optional<TrainStep> built =
        build_step(session, train_step_options(session.config, session.layouts, 3), diagnostics);
    sets = open_evaluation_sets(session, diagnostics);
    diagnostics.throw_if_errors();
    step = compile(session, *built->graph);
    if (sets.empty()) return;
    const std::unique_ptr<Graph> graph = build_evaluation(session, diagnostics).graph;
    diagnostics.throw_if_errors();
    evaluation = compile(session, *graph);
  }

  static Session open(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = kNetwork;
    all.insert(all.end(), arguments.begin(), arguments.end());
    Diagnostics diagnostics;
    Session session = open_session({MTF_SOURCE_DIR "/configs/models/toy.yaml"}, all, diagnostics);
    diagnostics.throw_if_errors();
    return session;
  }

  std::vector<const Program*> programs() const {
    std::vector<const Program*> programs{&step};
    if (evaluation) programs.push_back(&*evaluation);
    return programs;
  }
  MemoryNeed need(bool snapshot = true) const {
    return memory_need(session, programs(),
                       memory_use(session, snapshot, sets, evaluation_decoding(session, sets).bytes))
        .host;
  }

  Session session;
  Program step;
  std::optional<Program> evaluation;
  std::vector<EvaluationSet> sets;
};

int64_t part(const MemoryNeed& need, const std::string& name) {
  for (const MemoryNeed::Part& p : need.parts) {
    if (p.name == name) return p.bytes;
  }
  return 0;
}

int64_t need_of(const std::vector<std::string>& arguments) { return Planned(arguments).need().total(); }

/// Returns the problem that check_memory reports if the limit is `limit` bytes; nullopt if the run may start.
std::optional<Problem> refusal(Planned& planned, int64_t limit) {
  planned.session.config.run.memory_limit.value = config::Bytes{limit};
  try {
    check_memory(planned.session, planned.programs(), true, planned.sets,
                 evaluation_decoding(planned.session, planned.sets));
    return std::nullopt;
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2) << "the configuration gives the limit";
    EXPECT_EQ(error.problems().size(), 1u);
    return error.problems().front();
  }
}

std::optional<Problem> refusal(std::vector<std::string> arguments, int64_t limit) {
  arguments.push_back(fmt::format("run.memory_limit={}", limit));
  Planned planned(arguments);
  return refusal(planned, limit);
}

constexpr int64_t kWeights = 4 * 512 * 512 * 4;
constexpr int64_t kBatchBytes = 4096 * 512 * 4;  // bytes of x, and of y

TEST(MemoryNeed, SaysWhatItIsFor) {
  const Planned planned({"vars.more_pairs=1", "run.threads=2"});
  const MemoryNeed need = planned.need();
  EXPECT_EQ(part(need, "weights"), kWeights);
  EXPECT_EQ(part(need, "optimizer slots"), 2 * kWeights);
  EXPECT_EQ(part(need, "checkpoint snapshot"), 3 * kWeights);
  EXPECT_EQ(part(need, "inputs") / kBatchBytes, 2);
  EXPECT_EQ(part(need, "batches read ahead") / kBatchBytes, 3 * 2);
  EXPECT_EQ(part(need, "temporaries"), plan_memory(planned.step).process.temporaries);
  EXPECT_GT(part(need, "kernel scratch"), 0);
  EXPECT_EQ(part(need, "evaluation data"), 0);
  int64_t sum = 0;
  for (const MemoryNeed::Part& p : need.parts) {
    EXPECT_GT(p.bytes, 0) << p.name;
    sum += p.bytes;
  }
  EXPECT_EQ(need.total(), sum);
  EXPECT_EQ(planned.need(false).total(), sum - 3 * kWeights);
}

TEST(MemoryNeed, OfVariablesIsWhatTheStoreTakes) {
  for (const char* layout : {"layout=batch:all", "layout=hidden_odd:all"}) {
    const Planned planned({"mesh=all:4", layout, "run.check_replicas=true"});
    for (const bool replicate : {false, true}) {
      const VariableStore store(*planned.session.backend, planned.step.mesh, planned.step.variables,
                                {.replicate = replicate});
      int64_t stored = 0;
      for (const ProgramVariable& v : planned.step.variables) {
        int64_t slices = 0;
        for (const auto& slice : store.slices(v.variable.name)) slices += aligned(slice.bytes);
        stored += variable_aligned(slices);
      }
      EXPECT_EQ(plan_memory(planned.step, replicate).process.variables / 4096, stored / 4096) << layout;
    }
  }
}

TEST(MemoryNeed, CountsTheEvaluation) {
  const std::string set = "{type: identity, size: 512, dimension: io, examples: 5000}";
  const MemoryNeed need =
      Planned({"evaluate.datasets={small: " + set + ", other: " + set + "}", "evaluate.batch_size=2048"})
          .need();
  // The data sets are evaluated one after the other; 5000 examples are 3 batches.
  EXPECT_EQ(part(need, "batches read ahead of the evaluation") / (2048 * 512 * 4), 3 * 2);
  EXPECT_GE(part(need, "inputs of the evaluation"), 2 * 2048 * 512 * 4);
  EXPECT_GT(part(need, "temporaries of the evaluation"), 0);
  EXPECT_EQ(part(need, "weights"), kWeights);
}

TEST(MemoryNeed, OfDataInMemoryIsCounted) {
  Planned planned({});
  const int64_t before = planned.need().total();
  std::vector<std::vector<std::byte>> values(2, std::vector<std::byte>(100 * 512 * 4));
  planned.session.train_data =
      std::make_shared<MemorySource>(planned.session.train_data->features(), std::move(values));
  EXPECT_EQ(planned.need().total(), before + 2 * 100 * 512 * 4);
  EXPECT_EQ(part(planned.need(), "training data"), 2 * 100 * 512 * 4);
}

TEST(LargestNeed, IsThatOfTheProcessThatNeedsMost) {
  const std::vector<std::vector<std::string>> runs = {
      // Two stages, of which the last one has the widest layers.
      {"model.layers=[{dense: {name: first, output: {hidden_odd: 16}}},"
       " {repeat: {name: block, times: 2, layers:"
       " [{residual: {layers: [{dense: {output: {hidden_odd: 16}}}]}}]}},"
       " {dense: {name: wide, output: {wide: 4096}}}, {dense: {name: last, output: {io: 512}}}]",
       "mesh=stages:2", "layout=layers:stages", "train.microbatches=2", "cluster.processes=2"},
      // The positions of process 1 differ along `x`, those of the others do not.
      {"mesh=x:2;y:3", "layout=hidden_odd:x", "cluster.processes=3"}};
  for (std::vector<std::string> run : runs) {
    SCOPED_TRACE(run.back());
    run.emplace_back("run.mode=explain");
    const Planned planned(run);
    MemoryUse use = memory_use(planned.session, true, planned.sets, {});
    std::vector<int64_t> needs;
    for (int process = 0; process < use.hosting.processes; ++process) {
      use.hosting.process = process;
      needs.push_back(memory_need(planned.session, planned.programs(), use).host.total());
    }
    EXPECT_GT(needs[1], needs[0] + (1 << 20));
    for (int process = 0; process < use.hosting.processes; ++process) {
      use.hosting.process = process;
      EXPECT_EQ(largest_need(planned.session, planned.programs(), use).host.total(), std::ranges::max(needs));
    }
  }
}

TEST(TightestProcesses, AreThoseWithLeastRoomOfEachKind) {
  const auto tightest = [](std::vector<std::string> run, std::vector<ProcessRoom> rooms) {
    run.emplace_back("run.mode=explain");
    const Planned planned(run);
    return tightest_processes(planned.programs(), memory_use(planned.session, true, planned.sets, {}), rooms);
  };
  constexpr int64_t kPlenty = int64_t{1} << 40;
  using ::testing::ElementsAre;
  const std::vector<std::string> replicated = {"mesh=x:4", "layout=batch:x", "cluster.processes=4"};
  const std::vector<ProcessRoom> alike = {{0, kPlenty, 8}, {1, kPlenty, 8}, {2, kPlenty, 8}, {3, kPlenty, 8}};
  EXPECT_THAT(tightest(replicated, alike), ElementsAre(0)) << "it saves all variables";
  std::vector<ProcessRoom> unlike = alike;
  unlike[2].host = kPlenty / 2;
  unlike[3].device = 7;
  EXPECT_THAT(tightest(replicated, unlike), ElementsAre(2, 3));
  unlike[2].host = kPlenty - 1;
  EXPECT_THAT(tightest(replicated, unlike), ElementsAre(0, 3))
      << "process 2 has a byte less, but saves nothing";
  // Processes 0 and 2 hold one half along `x`, process 1 both.
  EXPECT_THAT(tightest({"mesh=x:2;y:3", "layout=hidden_odd:x", "cluster.processes=3"},
                       {{0, kPlenty, 8}, {1, kPlenty, 8}, {2, kPlenty, 8}}),
              ElementsAre(0, 1));
}

TEST(CheckMemory, RefusesTheRunThatIsOneByteTooLarge) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{},
        {"mesh=rows:2;cols:2", "layout=batch:rows;hidden_odd:cols"},
        {"train.microbatches=4"}}) {
    Planned planned(arguments);
    int64_t refused = 0, accepted = int64_t{1} << 32;
    while (accepted - refused > 1) {
      const int64_t middle = refused + (accepted - refused) / 2;
      (refusal(planned, middle) ? refused : accepted) = middle;
    }
    EXPECT_EQ(accepted, planned.need().total());
    const std::optional<Problem> problem = refusal(planned, refused);
    ASSERT_TRUE(problem);
    // The two numbers differ only in the last digit, so all digits are shown.
    EXPECT_THAT(problem->message, HasSubstr(" B of memory and may take"));
  }
}

TEST(CheckMemory, AMachineThatIsTooSmallIsNoMistakeOfTheConfiguration) {
  const Planned planned({"run.mode=explain", "hardware={device: {memory: 1MB}}"});
  try {
    check_memory(planned.session, planned.programs(), true, planned.sets,
                 evaluation_decoding(planned.session, planned.sets));
    ADD_FAILURE() << "the run was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kMemory);
    EXPECT_EQ(error.exit_code(), 1);
  }
}

TEST(CheckMemory, SaysTheNumbersTheLimitAndTheLargestTensors) {
  const std::optional<Problem> problem = refusal({"layout=batch:all", "mesh=all:4"}, 50'000'000);
  ASSERT_TRUE(problem);
  EXPECT_THAT(problem->message,
              ::testing::MatchesRegex("the run needs [0-9.]+ MB of memory and may take 50 MB "
                                      "\\(run.memory_limit\\)"));
  EXPECT_EQ(problem->mark.file.substr(0, 8), "argument");
  EXPECT_THAT(problem->details, HasSubstr("batches read ahead"));
  EXPECT_THAT(problem->details,
              HasSubstr("f32 [batch=4096/all, hidden_odd=512]  result of `einsum` in layer"));
  const std::string tensors = problem->details.substr(problem->details.find("largest tensors"));
  EXPECT_EQ(std::ranges::count(tensors, '\n'), 8);
  // Weights are the largest part if the batch is small.
  const std::optional<Problem> other = refusal({"train.batch_size=8"}, 1'000'000);
  ASSERT_TRUE(other);
  EXPECT_THAT(other->details, HasSubstr("f32 [io=512, hidden_odd=512]  variable `layer_1/kernel`"));
}

/// Returns the changes that a hint suggests: "`train.batch_size: 96`" as "train.batch_size=96".
std::vector<std::string> changes_in(const std::string& hint) {
  std::vector<std::string> changes;
  const std::regex pattern("`([a-z._]+): ([a-z0-9]+)`");
  for (std::sregex_iterator it(hint.begin(), hint.end(), pattern), end; it != end; ++it)
    changes.push_back((*it)[1].str() + "=" + (*it)[2].str());
  return changes;
}

TEST(CheckMemory, NamesChangesThatEachMakeTheRunFit) {
  const std::vector<std::vector<std::string>> runs = {
      {},
      {"mesh=all:8", "layout=batch:all"},
      {"mesh=rows:2;cols:2", "layout=batch:rows;hidden_odd:cols", "run.check_replicas=true"},
      {"evaluate.datasets={dev: {type: identity, size: 512, dimension: io, examples: 9000}}",
       "evaluate.batch_size=8192"},
  };
  int named = 0;
  for (const std::vector<std::string>& run : runs) {
    const int64_t need = need_of(run);
    for (const double share : {0.6, 0.8, 0.95}) {
      const auto limit = static_cast<int64_t>(share * static_cast<double>(need));
      const std::optional<Problem> problem = refusal(run, limit);
      ASSERT_TRUE(problem);
      for (const std::string& change : changes_in(problem->hint)) {
        std::vector<std::string> changed = run;
        changed.push_back(change);
        EXPECT_FALSE(refusal(changed, limit)) << change << " in " << problem->hint;
        ++named;
      }
    }
  }
  EXPECT_GT(named, 12);
}

TEST(CheckMemory, NamesTheKeysThatHelp) {
  const int64_t need = need_of({});
  const std::optional<Problem> problem = refusal({}, need * 8 / 10);
  ASSERT_TRUE(problem);
  EXPECT_THAT(problem->hint, HasSubstr("each of these fits: `train.batch_size: "));
  EXPECT_THAT(problem->hint, HasSubstr("`train.microbatches: "));
  // The suggested batch is not much smaller than necessary.
  const std::string batch = changes_in(problem->hint).front();
  const int64_t size = std::stoll(batch.substr(batch.find('=') + 1));
  EXPECT_TRUE(refusal({fmt::format("train.batch_size={}", size + size / 8)}, need * 8 / 10));
}

TEST(CheckMemory, FindsTheBatchThatFitsBelowOneThatIsFarTooLarge) {
  constexpr int64_t kLimit = 2'000'000'000;
  for (const char* run : {"train.batch_size=1000000000", "train.batch_size=10000000000"}) {
    const std::optional<Problem> problem = refusal(std::vector<std::string>{run}, kLimit);
    ASSERT_TRUE(problem);
    const std::string batch = changes_in(problem->hint).front();
    ASSERT_THAT(batch, HasSubstr("train.batch_size=")) << run;
    const int64_t size = std::stoll(batch.substr(batch.find('=') + 1));
    EXPECT_FALSE(refusal({batch}, kLimit));
    EXPECT_TRUE(refusal({fmt::format("train.batch_size={}", size + size / 8)}, kLimit)) << size;
  }
}

TEST(CheckMemory, NamesOnlyWhatHelps) {
  // The variables alone are too large: no batch is small enough.
  const std::optional<Problem> problem = refusal({"train.batch_size=8"}, 6 * kWeights);
  ASSERT_TRUE(problem);
  EXPECT_THAT(problem->hint, HasSubstr("a smaller model, or more memory"));
  EXPECT_THAT(changes_in(problem->hint), IsEmpty());
  // Replicas that are stored separately for checking are the largest part.
  const std::vector<std::string> checked = {"mesh=all:8", "layout=batch:all", "train.batch_size=64",
                                            "run.check_replicas=true"};
  const std::optional<Problem> other = refusal(checked, need_of(checked) * 2 / 5);
  ASSERT_TRUE(other);
  EXPECT_THAT(changes_in(other->hint), Contains("run.check_replicas=false"));
  EXPECT_THAT(other->hint, Not(HasSubstr("train.batch_size")));
}

TEST(CheckMemory, NamesSmallerSlots) {
  const std::vector<std::string> small = {"train.batch_size=8"};
  // Two slots for each weight, and their copy for a checkpoint: bfloat16 saves half of them.
  const int64_t limit = need_of(small) - 3 * kWeights / 2;
  const std::optional<Problem> problem = refusal(small, limit);
  ASSERT_TRUE(problem);
  EXPECT_THAT(changes_in(problem->hint), Contains("precision.slots=bfloat16")) << problem->hint;
  EXPECT_FALSE(refusal({small.front(), "precision.slots=bfloat16"}, limit));
  // int8 saves more, although an update then needs both the old and the new codes.
  const int64_t less = (need_of({small.front(), "precision.slots=bfloat16"}) +
                        need_of({small.front(), "precision.slots=int8"})) /
                       2;
  const std::optional<Problem> other = refusal(small, less);
  ASSERT_TRUE(other);
  EXPECT_THAT(changes_in(other->hint), Contains("precision.slots=int8")) << other->hint;
  EXPECT_THAT(other->hint, Not(HasSubstr("bfloat16")));
  EXPECT_FALSE(refusal({small.front(), "precision.slots=int8"}, less));
}

TEST(CheckMemory, NamesTheMemoryOfTheMachineOfAGpu) {
  const auto planned = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"run.mode=explain", "hardware=h100_8x_nvlink_400g",
                                          "run.memory_limit=1GB"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Planned(arguments);
  };
  const auto hint_below = [&](const std::vector<std::string>& more, int64_t saved) {
    const Planned whole = planned(more);
    const int64_t need =
        memory_need(whole.session, whole.programs(), memory_use(whole.session, true, {}, {})).device.total();
    std::vector<std::string> limited = more;
    limited.push_back(fmt::format("run.device_memory_limit={}", need - saved));
    Planned run = planned(limited);
    const std::optional<Problem> problem = refusal(run, 1'000'000'000);
    return problem ? problem->hint : "";
  };
  EXPECT_THAT(hint_below({"train.batch_size=8"}, kWeights), HasSubstr("`offload.slots: host`"));
  EXPECT_THAT(hint_below({"train.batch_size=8"}, kWeights), Not(HasSubstr("offload.activations")));
  EXPECT_THAT(hint_below({}, kBatchBytes / 4), HasSubstr("`offload.activations: host`"));
}

TEST(CheckMemory, NamesALayoutWhereTheMeshSplitsNoVariable) {
  // With every replica in memory, split slots need an eighth.
  const std::vector<std::string> run = {"mesh=all:8", "layout=batch:all", "train.batch_size=64",
                                        "run.check_replicas=true"};
  const std::optional<Problem> problem = refusal(run, need_of(run) * 7 / 10);
  ASSERT_TRUE(problem);
  EXPECT_THAT(problem->hint, HasSubstr("`optimizer_layout` with `"));
  EXPECT_THAT(problem->hint, HasSubstr("`parameter_layout` with `"));
  std::smatch match;
  ASSERT_TRUE(std::regex_search(problem->hint, match, std::regex("`parameter_layout` with `([^`]*)`")));
  std::vector<std::string> changed = run;
  changed.push_back("parameter_layout={" + match[1].str() + "}");
  EXPECT_FALSE(refusal(changed, need_of(run) * 7 / 10)) << match[1];
}

TEST(CheckMemory, NamesOnePositionWherePartialSumsOfManyAreTooLarge) {
  const std::vector<std::string> run = {"mesh=all:8", "layout=batch:all", "train.batch_size=64"};
  const int64_t single = need_of({"train.batch_size=64"});
  EXPECT_GT(need_of(run), single);
  const std::optional<Problem> problem = refusal(run, single);
  ASSERT_TRUE(problem);
  EXPECT_THAT(problem->hint, HasSubstr("one position, without `mesh` and layouts"));
}

TEST(CheckMemory, LetsARunThroughThatTheMachineHasMemoryFor) {
  const Planned planned({});
  EXPECT_NO_THROW(check_memory(planned.session, planned.programs(), true, planned.sets,
                               evaluation_decoding(planned.session, planned.sets)));
  EXPECT_NE(memory_limit(planned.session.config).source, "run.memory_limit");
}

}  // namespace
}  // namespace mtf::testing
