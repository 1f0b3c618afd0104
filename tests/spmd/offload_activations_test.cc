#include <gtest/gtest.h>

#include "engine/spmd/passes/passes.h"
#include "tests/support/program_text.h"

namespace mtf::testing {
namespace {

constexpr int64_t kMovedBytes = 8 * 8 * 4;  ///< size of a value whose type the texts do not give

/// Offloads with %x as an input of the program, on which values must depend to move.
Program offloaded(Program program) {
  program.values[value_called(program, "x")].storage = Value::Storage::kInput;
  return offload_activations(std::move(program), kMovedBytes);
}

void expect_nothing_moves(const std::string& text) {
  const Program program = parse_program(text);
  EXPECT_EQ(instructions_text(offloaded(program)), instructions_text(program));
}

TEST(OffloadActivations, CopiesWhatTheBackwardPassReadsLast) {
  expect_rewrite(offloaded,
                 "%a = f(%x)\n%b = f(%a)\n%c = f(%b)\n%d = f(%c)\n%e = g(%d, %c) {backward}\n"
                 "%h = g(%e, %b) {backward}\n%i = g(%h, %a) {backward}",
                 "%a = f(%x)\n%b = f(%a)\n%a_host = to_host(%a)\n%c = f(%b)\ndone(%a_host)\n"
                 "%b_host = to_host(%b)\n%d = f(%c)\ndone(%b_host)\n%b_back = from_host(%b_host)\n"
                 "%e = g(%d, %c)\n%a_back = from_host(%a_host)\ndone(%b_back)\n%h = g(%e, %b_back)\n"
                 "done(%a_back)\n%i = g(%h, %a_back)");
}

/// What is kept around these lines, and has the size of their values, is worth a copy.
const std::string kTurn = "%b = f(%x)\n%c = f(%b)\n%d = g(%c, %b) {backward}\n%e = g(%d, %b) {backward}\n";

TEST(OffloadActivations, LeavesSmallValues) {
  const std::string small =
      "%a = f(%x) : f32[batch=8, d_model=4]\n%u = f(%a)\n" + kTurn + "%i = g(%e, %a) {backward}";
  expect_nothing_moves(small);
}

TEST(OffloadActivations, LeavesWhatFollowsFromTheWeights) {
  expect_nothing_moves("variable %w: f32[batch=8, d_model=8]\n%a = f(%w)\n%u = f(%a)\n" + kTurn +
                       "%i = g(%e, %a) {backward}");
}

TEST(OffloadActivations, LeavesResultsOfTheProgramAndSums) {
  expect_nothing_moves("%a = f(%x)\n%u = f(%a)\n" + kTurn + "%i = g(%e, %a) {backward}\noutput %a");
  expect_nothing_moves("%a = accumulate(%x)\n%u = f(%a)\n" + kTurn + "%i = g(%e, %a) {backward}");
}

TEST(OffloadActivations, WhatUsesTheMemoryAfterwardsUsesThatWhichCameBack) {
  const Program program = offloaded(
      reuse_memory(parse_program("%a = f(%x)\n%u = f(%a)\n" + kTurn +
                                 "%i = relu(%a, %e) {backward, in_place 0}\n%j = f(%i) {backward}")));
  const ValueId a = value_called(program, "a"), back = value_called(program, "a_back");
  const Instruction& last = program.instructions.back();
  EXPECT_EQ(program.root(last.inputs[0]), back);
  EXPECT_NE(program.root(last.inputs[0]), a);
  EXPECT_TRUE(program.values[value_called(program, "a_host")].on_host);
  EXPECT_FALSE(program.values[back].on_host);
}

TEST(OffloadActivations, ACollectiveReadsItsOperandWhereItIs) {
  const std::string text = "%a = f(%x)\n%s = all_gather_start(%a, batch, data)\n" + kTurn +
                           "%i = g(%e, %a) {backward}\ndone(%s)\n%j = f(%s) {backward}";
  expect_nothing_moves(text);
}

}  // namespace
}  // namespace mtf::testing
