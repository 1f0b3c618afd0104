#include "engine/spmd/passes/passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <iterator>

#include "tests/support/program_text.h"

namespace mtf::testing {
namespace {

void expect_unchanged(const std::function<Program(Program)>& pass, const std::string& text) {
  expect_rewrite(pass, text, instructions_text(parse_program(text)));
}

TEST(FuseReduceScatter, ReplacesAllReduceThenSlice) {
  expect_rewrite(fuse_reduce_scatter, "%a = all_reduce(%g, sum, data)\n%s = slice(%a, d_model, data)",
                 "%s = reduce_scatter(%g, sum, d_model, data)");
}

TEST(FuseReduceScatter, ReducesOverTheOtherMeshDimensionsAfterwards) {
  expect_rewrite(fuse_reduce_scatter, "%a = all_reduce(%g, sum, data, model)\n%s = slice(%a, d_model, data)",
                 "%new_1 = reduce_scatter(%g, sum, d_model, data)\n%s = all_reduce(%new_1, sum, model)");
}

TEST(FuseReduceScatter, ScattersOverEachMeshDimensionThatIsSliced) {
  expect_rewrite(
      fuse_reduce_scatter,
      "%a = all_reduce(%g, sum, data, model)\n%s = slice(%a, batch, data)\n%t = slice(%s, d_model, model)",
      "%new_1 = reduce_scatter(%g, sum, batch, data)\n%t = reduce_scatter(%new_1, sum, d_model, model)");
}

TEST(FuseReduceScatter, LooksPastOtherInstructionsAndIntoLoops) {
  expect_rewrite(
      fuse_reduce_scatter,
      "repeat(3) {\n%a = all_reduce(%g, sum, data)\n%y = relu(%x)\n%s = slice(%a, d_model, data)\n}",
      "repeat(3) {\n%y = relu(%x)\n%s = reduce_scatter(%g, sum, d_model, data)\n}");
}

TEST(FuseReduceScatter, LeavesAnAllReduceWithOtherReaders) {
  expect_unchanged(fuse_reduce_scatter,
                   "%a = all_reduce(%g, sum, data)\n%s = slice(%a, d_model, data)\n%y = relu(%a)");
  expect_rewrite(fuse_reduce_scatter,
                 "%a = all_reduce(%g, sum, data)\n%s = slice(%a, d_model, data)\noutput %a",
                 "%a = all_reduce(%g, sum, data)\n%s = slice(%a, d_model, data)");
}

TEST(FuseReduceScatter, LeavesASliceOverAnotherMeshDimension) {
  expect_unchanged(fuse_reduce_scatter, "%a = all_reduce(%g, sum, data)\n%s = slice(%a, d_model, model)");
}

TEST(FuseReduceScatter, LeavesAnAllReduceThatNothingReads) {
  expect_unchanged(fuse_reduce_scatter, "%a = all_reduce(%g, max, data)");
}

TEST(StartReductionsEarly, MovesThemToWhereTheirInputIsMade) {
  expect_rewrite(start_reductions_early,
                 "%g = einsum(%x)\n%y = relu(%x)\n%z = relu(%y)\n%a = all_reduce(%g, sum, data)",
                 "%g = einsum(%x)\n%a = all_reduce(%g, sum, data)\n%y = relu(%x)\n%z = relu(%y)");
}

TEST(StartReductionsEarly, KeepsReductionsOfOneMomentInOrder) {
  expect_rewrite(start_reductions_early,
                 "%g = f(%x)\n%h = f(%x)\n%y = relu(%x)\n%a = all_reduce(%g, sum, data)\n"
                 "%s = reduce_scatter(%h, sum, d_model, data)",
                 "%g = f(%x)\n%a = all_reduce(%g, sum, data)\n%h = f(%x)\n"
                 "%s = reduce_scatter(%h, sum, d_model, data)\n%y = relu(%x)");
}

TEST(StartReductionsEarly, LeavesOthersInPlace) {
  expect_unchanged(start_reductions_early,
                   "%y = relu(%x)\n%a = all_reduce(%g, sum, data)\n%z = all_gather(%s, d_model, data)");
}

TEST(StartReductionsEarly, WaitsForALoop) {
  expect_rewrite(start_reductions_early,
                 "repeat(3) {\n%g = accumulate(%x)\n}\n%y = relu(%x)\n%a = all_reduce(%g, sum, data)",
                 "repeat(3) {\n%g = accumulate(%x)\n}\n%a = all_reduce(%g, sum, data)\n%y = relu(%x)");
}

TEST(AccumulateEarly, AddsTermsWhereTheyAreMade) {
  expect_rewrite(
      accumulate_early,
      "repeat(3) {\n%g = f(%x)\n%h = f(%g)\n%y = relu(%h)\n%b = accumulate(%h)\n%a = accumulate(%g)\n}",
      "repeat(3) {\n%g = f(%x)\n%a = accumulate(%g)\n%h = f(%g)\n%b = accumulate(%h)\n%y = relu(%h)\n}");
}

/// What a collective makes is awaited no earlier than before; what the loop does not make is added where it was.
TEST(AccumulateEarly, LeavesOthersInPlace) {
  expect_unchanged(accumulate_early,
                   "repeat(3) {\n%g = f(%x)\n%s = reduce_scatter(%g, sum, d_model, data)\n%y = relu(%g)\n"
                   "%a = accumulate(%s)\n%b = accumulate(%x)\n}");
}

const char* const kGatheredLayers =
    "variable %w1: f32[batch=8, d_model=8/data]\nvariable %w2: f32[batch=8, d_model=8/data]\n"
    "variable %w3: f32[batch=8, d_model=8/data]\n"
    "%a = all_gather(%w1, d_model, data) {layer 1}\n%x = f(%a) {layer 1}\n%xx = f(%x) {layer 1}\n"
    "%b = all_gather(%w2, d_model, data) {layer 2}\n%y = f(%x, %b) {layer 2}\n"
    "%c = all_gather(%w3, d_model, data) {layer 3}\n%z = f(%y, %c) {layer 3}\n";

TEST(ScheduleGathers, StartsThemOneLayerAhead) {
  expect_rewrite(
      [](Program p) { return schedule_gathers(std::move(p), 1); }, kGatheredLayers,
      "%a = all_gather(%w1, d_model, data)\n%b = all_gather(%w2, d_model, data)\n%x = f(%a)\n%xx = f(%x)\n"
      "%c = all_gather(%w3, d_model, data)\n%y = f(%x, %b)\n%z = f(%y, %c)");
}

TEST(ScheduleGathers, WithNoneAheadLeavesThem) {
  expect_unchanged([](Program p) { return schedule_gathers(std::move(p), 0); }, kGatheredLayers);
}

TEST(ScheduleGathers, StaysWithinThePhase) {
  expect_unchanged(
      [](Program p) { return schedule_gathers(std::move(p), 1); },
      "variable %w: f32[batch=8, d_model=8/data]\n%x = f(%u) {layer 1}\n"
      "%a = all_gather(%w, d_model, data) {layer 1, backward}\n%y = f(%a, %x) {layer 1, backward}");
}

std::function<Program(Program)> buckets(int64_t bytes) {
  return [bytes](Program p) { return bucket_reductions(std::move(p), bytes); };
}

TEST(BucketReductions, MergesUntilAResultIsNeeded) {
  expect_rewrite(buckets(1 << 20),
                 "%a = all_reduce(%g, sum, data)\n%b = all_reduce(%h, sum, data)\n%y = relu(%a)\n"
                 "%c = all_reduce(%i, sum, data)",
                 "%a, %b = all_reduce(%g, %h, sum, data)\n%y = relu(%a)\n%c = all_reduce(%i, sum, data)");
}

TEST(BucketReductions, KeepsKindsTypesAndMeshDimensionsApart) {
  expect_rewrite(
      buckets(1 << 20),
      "param %h: bf16[batch=8] partial sum over data\n"
      "%a = all_reduce(%g, sum, data)\n%b = all_reduce(%h, sum, data)\n%c = all_reduce(%i, sum, model)\n"
      "%d = all_reduce(%j, max, data)\n%e = all_reduce(%k, sum, data)",
      "%a, %e = all_reduce(%g, %k, sum, data)\n%b = all_reduce(%h, sum, data)\n"
      "%d = all_reduce(%j, max, data)\n%c = all_reduce(%i, sum, model)");
}

TEST(BucketReductions, KeepsResultsThatVaryOverOtherMeshDimensionsApart) {
  expect_unchanged(buckets(1 << 20),
                   "param %h: f32[batch=8/model] partial sum over data\n"
                   "%a = all_reduce(%g, sum, data)\n%b = all_reduce(%h, sum, data)");
}

TEST(BucketReductions, StaysWithinItsSize) {
  const std::string text =
      "%a = all_reduce(%g, sum, data)\n%b = all_reduce(%h, sum, data)\n%c = all_reduce(%i, sum, data)";
  expect_rewrite(buckets(2 * 8 * 8 * 4), text,
                 "%a, %b = all_reduce(%g, %h, sum, data)\n%c = all_reduce(%i, sum, data)");
  expect_unchanged(buckets(8 * 8 * 4 - 1), text);
}

TEST(BucketReductions, DoesNotDelayAValueThatFillsABucketAlone) {
  expect_unchanged(buckets(8 * 8 * 4), "%a = all_reduce(%g, sum, data)\n%y = relu(%x)");
}

TEST(BucketReductions, StartsAnewInEachLoop) {
  expect_unchanged(buckets(1 << 20),
                   "repeat(2) {\n%a = all_reduce(%g, sum, data)\n}\n%b = all_reduce(%h, sum, data)");
}

TEST(GroupSegments, PutsTogetherWhatVariesAlike) {
  expect_rewrite(group_segments,
                 "param %x: f32[batch=8/data]\n"
                 "%a = f(%x)\n%b = f(%w)\n%c = f(%a)\n%d = f(%b)\n%e = f(%c, %d)",
                 "%a = f(%x)\n%c = f(%a)\n%b = f(%w)\n%d = f(%b)\n%e = f(%c, %d)");
}

TEST(GroupSegments, LeavesWhatIsComputedAgainWhereItIsNeeded) {
  const std::string text =
      "param %x: f32[batch=8/data]\n"
      "%a = f(%x)\n%s = f(%w)\n%b = f(%a, %s)\n%r = f(%x)\n%c = f(%b, %r)";
  expect_rewrite(group_segments, text, "%a = f(%x)\n%r = f(%x)\n%s = f(%w)\n%b = f(%a, %s)\n%c = f(%b, %r)");
  const auto recomputed = [](Program program) {
    program.instructions[3].provenance.recomputed = true;
    return group_segments(std::move(program));
  };
  expect_unchanged(recomputed, text);
}

TEST(GroupSegments, DoesNotCrossCollectives) {
  expect_unchanged(
      group_segments,
      "param %x: f32[batch=8/data]\n"
      "%b = f(%w)\n%s = all_reduce(%g, sum, model)\n%a = f(%x)\n%t = all_reduce(%h, sum, model)\n%c = f(%w)");
}

TEST(SplitCollectives, WaitsBeforeTheFirstUse) {
  expect_rewrite(
      split_collectives, "%a = all_reduce(%g, sum, data)\n%y = relu(%x)\n%z = relu(%a)\n%zz = relu(%a)",
      "%a = all_reduce_start(%g, sum, data)\n%y = relu(%x)\ndone(%a)\n%z = relu(%a)\n%zz = relu(%a)");
}

TEST(SplitCollectives, WaitsForWhatNobodyUsesAtTheEndOfTheBlock) {
  expect_rewrite(split_collectives, "repeat(2) {\n%a = all_gather(%x, d_model, data)\n%y = relu(%z)\n}",
                 "repeat(2) {\n%a = all_gather_start(%x, d_model, data)\n%y = relu(%z)\ndone(%a)\n}");
}

TEST(SplitCollectives, WaitsForValuesOfAGuardAndOfALoop) {
  expect_rewrite(split_collectives,
                 "%a = all_reduce(%g, sum, data)\n%b = all_reduce(%h, sum, data)\n%w = copy(%x) if %a\n"
                 "repeat(2) {\n%y = relu(%b)\n}",
                 "%a = all_reduce_start(%g, sum, data)\n%b = all_reduce_start(%h, sum, data)\ndone(%a)\n"
                 "%w = copy(%x) if %a\ndone(%b)\nrepeat(2) {\n%y = relu(%b)\n}");
}

/// The name of the value in whose memory value `name` lives after reuse_memory.
std::string memory_of(const std::string& text, const std::string& name) {
  const Program program = reuse_memory(parse_program(text));
  return program.values[program.root(value_called(program, name))].name;
}

TEST(ReuseMemory, LetsAResultTakeOverAnOperandThatDies) {
  EXPECT_EQ(memory_of("%x = f(%p)\n%y = relu(%x) {in_place 0}", "y"), "x");
  EXPECT_EQ(memory_of("%x = f(%p)\n%y = relu(%x) {in_place 0}\n%z = relu(%y) {in_place 0}", "z"), "x");
}

TEST(ReuseMemory, LeavesAnOperandThatIsReadAgain) {
  EXPECT_EQ(memory_of("%x = f(%p)\n%y = relu(%x) {in_place 0}\n%z = f(%x)", "y"), "y");
  EXPECT_EQ(memory_of("%x = f(%p)\n%y = add(%x, %x) {in_place 0}", "y"), "y");
  EXPECT_EQ(memory_of("%x = f(%p)\n%y = relu(%x) {in_place 0}\noutput %x", "y"), "y");
}

TEST(ReuseMemory, LeavesOperandsThatItDoesNotOwn) {
  EXPECT_EQ(memory_of("variable %w: f32[batch=8]\n%y = relu(%w) {in_place 0}", "y"), "y");
  EXPECT_EQ(memory_of("%x = f(%p)\nrepeat(3) {\n%y = relu(%x) {in_place 0}\n}", "y"), "y");
}

TEST(ReuseMemory, LeavesOperandsOfAnotherSizeOrSpread) {
  EXPECT_EQ(memory_of("%x = f(%p)\n%y = relu(%x) : f32[batch=8] {in_place 0}", "y"), "y");
  EXPECT_EQ(memory_of("%x = f(%p)\n%y = relu(%x) : f32[batch=16/data, d_model=8] {in_place 0}", "y"), "y");
}

TEST(ReuseMemory, UpdatesAVariableWhereItStands) {
  expect_rewrite(
      reuse_memory,
      "variable %w: f32[batch=8, d_model=8]\n%u = sgd(%w, %g) {in_place 0}\n%w = copy(%u) if %finite",
      "%u = sgd(%w, %g) if %finite");
  EXPECT_EQ(memory_of("variable %w: f32[batch=8, d_model=8]\n%u = f(%g)\n%w = copy(%u)", "u"), "w");
}

TEST(ReuseMemory, KeepsTheCopyWhileTheOldValueIsNeeded) {
  expect_unchanged(
      reuse_memory,
      "variable %w: f32[batch=8, d_model=8]\n%u = sgd(%w, %g) {in_place 0}\n%y = f(%w)\n%w = copy(%u)");
  expect_unchanged(reuse_memory, "variable %w: f32[batch=8, d_model=8]\n%u = transpose(%w)\n%w = copy(%u)");
  expect_unchanged(reuse_memory,
                   "variable %w: f32[batch=8, d_model=8]\n%u = sgd(%g, %w) {in_place 0}\n%w = copy(%u)");
}

TEST(ReuseMemory, KeepsTheCopyWhileTheGuardIsUnknown) {
  expect_unchanged(
      reuse_memory,
      "variable %w: f32[batch=8, d_model=8]\n%u = sgd(%w, %g) {in_place 0}\n%finite = check(%g)\n"
      "%w = copy(%u) if %finite");
  expect_unchanged(reuse_memory,
                   "variable %w: f32[batch=8, d_model=8]\n%finite = all_reduce_start(%f, min, data)\n"
                   "%u = sgd(%w, %g) {in_place 0}\ndone(%finite)\n%w = copy(%u) if %finite");
}

TEST(ReuseMemory, KeepsTheCopyWhereOthersReadAGuardedResult) {
  expect_unchanged(reuse_memory,
                   "variable %w: f32[batch=8, d_model=8]\n%u = sgd(%w, %g) {in_place 0}\n%y = f(%u)\n"
                   "%w = copy(%u) if %finite\noutput %y");
  expect_unchanged(reuse_memory,
                   "variable %w: f32[batch=8, d_model=8]\n%u = sgd(%w, %g) {in_place 0}\n"
                   "repeat(3) {\n%y = f(%u)\n}\n%w = copy(%u) if %finite");
  expect_rewrite(reuse_memory,
                 "variable %w: f32[batch=8, d_model=8]\nvariable %x: f32[batch=8, d_model=8]\n"
                 "%u = sgd(%w, %g) {in_place 0}\n%y = f(%u)\n%w = copy(%u) if %finite\n"
                 "%x = copy(%y) if %other",
                 "%u = sgd(%w, %g)\n%y = f(%u) if %other\n%w = copy(%u) if %finite");
}

TEST(ReuseMemory, UpdatesAVariableWhoseNewValueIsWantedUnderTheSameGuardAlone) {
  expect_rewrite(reuse_memory,
                 "variable %w: f32[batch=8, d_model=8]\nvariable %mean: f32[batch=8, d_model=8]\n"
                 "%u = sgd(%w, %g) {in_place 0}\n%d = subtract(%mean, %u)\n%n = sgd(%mean, %d) {in_place 0}\n"
                 "%w = copy(%u) if %finite\n%mean = copy(%n) if %finite",
                 "%u = sgd(%w, %g) if %finite\n%d = subtract(%mean, %u)\n%n = sgd(%mean, %d) if %finite");
}

/// Gradients of many weights. Each is reduced and sliced far from where it is made, behind a gather for each
/// layer.
Program many_reductions(int layers) {
  Program program = parse_program(
      "variable %w: f32[batch=8, d_model=8/data]\n%g = f(%x)\n%a = all_reduce(%g, sum, data)\n"
      "%s = slice(%a, d_model, data)\n%v = all_gather(%w, d_model, data)");
  const std::vector<Instruction> one = std::move(program.instructions);
  program.instructions.clear();
  std::vector<Instruction> reductions, gathers;
  for (int layer = 0; layer < layers; ++layer) {
    Instruction make = one[0], reduce = one[1], slice = one[2], gather = one[3];
    make.outputs = reduce.inputs = {program.add_value(program.values[one[0].outputs[0]])};
    reduce.outputs = slice.inputs = {program.add_value(program.values[one[1].outputs[0]])};
    slice.outputs = {program.add_value(program.values[one[2].outputs[0]])};
    gather.outputs = {program.add_value(program.values[one[3].outputs[0]])};
    for (Instruction* instruction : {&make, &reduce, &slice, &gather}) instruction->layer = layer;
    program.instructions.push_back(std::move(gather));
    program.instructions.push_back(std::move(make));
    reductions.push_back(std::move(reduce));
    reductions.push_back(std::move(slice));
  }
  std::ranges::move(reductions, std::back_inserter(program.instructions));
  return program;
}

/// A loop over all instructions for each of them would take minutes.
TEST(Passes, TakeAboutAsLongForAnInstructionHoweverManyThereAre) {
  constexpr int kLayers = 30'000;
  Program program = many_reductions(kLayers);
  const std::clock_t start = std::clock();
  program = fuse_reduce_scatter(std::move(program));
  EXPECT_EQ(program.instructions.size(), 3u * kLayers);
  program = start_reductions_early(std::move(program));
  EXPECT_TRUE(program.instructions[2].collective<action::ReduceScatter>());
  program = schedule_gathers(std::move(program), kLayers);
  EXPECT_TRUE(program.instructions[kLayers - 1].collective<action::AllGather>()) << "all are first";
  program = bucket_reductions(std::move(program), kBucketBytes);
  program = split_collectives(group_segments(std::move(program)));
  program = reuse_memory(std::move(program));
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 10) << "seconds";
}

}  // namespace
}  // namespace mtf::testing
