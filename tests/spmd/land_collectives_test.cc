#include <gtest/gtest.h>

#include "engine/spmd/passes/passes.h"
#include "tests/support/program_text.h"

namespace mtf::testing {
namespace {

constexpr int64_t kValueBytes = 8 * 8 * 4;  ///< size of a value whose type the texts do not give

std::function<Program(Program)> landed(int64_t more) {
  return [more](Program p) { return land_collectives(reuse_memory(std::move(p)), {.more = more}); };
}

/// The step's largest need is four values, in the last two lines; memory is free in the first ones.
const std::string kThreeGradients =
    "%g = f(%x)\n%a = all_reduce_start(%g, sum, data)\n%h = f(%x)\n%b = all_reduce_start(%h, sum, data)\n"
    "%i = f(%x)\n%c = all_reduce_start(%i, sum, data)\ndone(%a)\ndone(%b)\ndone(%c)\n%u = f(%a, %b, %c)";

const std::string kVariable = "variable %x: f32[batch=8, d_model=8]\n";  ///< takes no temporary memory

TEST(LandCollectives, OperandsInFlightFillTheMemoryThatIsFree) {
  expect_rewrite(landed(0), kVariable + kThreeGradients,
                 "%g = f(%x)\n%a = all_reduce_start(%g, sum, data)\n%h = f(%x)\n"
                 "%b = all_reduce_start(%h, sum, data)\ndone(%a)\n%i = f(%x)\ndone(%b)\n"
                 "%c = all_reduce_start(%i, sum, data)\ndone(%c)\n%u = f(%a, %b, %c)");
}

TEST(LandCollectives, AndMoreAsFarAsItIsAllowed) {
  expect_rewrite(landed(kValueBytes), kVariable + kThreeGradients,
                 "%g = f(%x)\n%a = all_reduce_start(%g, sum, data)\n%h = f(%x)\n"
                 "%b = all_reduce_start(%h, sum, data)\n%i = f(%x)\ndone(%a)\n"
                 "%c = all_reduce_start(%i, sum, data)\ndone(%b)\ndone(%c)\n%u = f(%a, %b, %c)");
  expect_rewrite(landed(2 * kValueBytes), kVariable + kThreeGradients, kThreeGradients);
}

TEST(LandCollectives, AnOperandLivesUntilItsCollectiveHasLanded) {
  const Program program = landed(0)(parse_program(kThreeGradients));
  for (const Instruction& instruction : program.instructions) {
    const auto* done = instruction.as<action::Done>();
    if (!done) continue;
    ASSERT_EQ(done->kept.size(), 1u);
    const char* operand = instruction.inputs[0] == value_called(program, "a")   ? "g"
                          : instruction.inputs[0] == value_called(program, "b") ? "h"
                                                                                : "i";
    EXPECT_EQ(done->kept[0], value_called(program, operand));
  }
}

TEST(LandCollectives, OperandsThatOthersReadAnywayCostNothing) {
  const std::string text =
      "%g = f(%x)\n%a = all_reduce_start(%g, sum, data)\n%h = f(%x)\n%y = f(%g, %h)\ndone(%a)\n%u = f(%a, "
      "%y)";
  expect_rewrite(landed(0), text, text);
}

TEST(LandCollectives, ADoneStandsBeforeWhatOverwritesAnOperand) {
  expect_rewrite(
      landed(1 << 20),
      "%g = f(%x)\n%a = all_reduce_start(%g, sum, data)\n%y = f(%x)\n%z = relu(%g) {in_place 0}\ndone(%a)\n"
      "%u = f(%a, %y, %z)",
      "%g = f(%x)\n%a = all_reduce_start(%g, sum, data)\n%y = f(%x)\ndone(%a)\n%z = relu(%g)\n"
      "%u = f(%a, %y, %z)");
  expect_rewrite(
      landed(1 << 20),
      "variable %w: f32[batch=8/data, d_model=8]\n%a = all_gather_start(%w, batch, data)\n%y = f(%x)\n"
      "%v = sgd(%w) {in_place 0}\n%w = copy(%v)\ndone(%a)\n%u = f(%a)",
      "%a = all_gather_start(%w, batch, data)\n%y = f(%x)\ndone(%a)\n%v = sgd(%w)\n%u = f(%a)");
}

TEST(LandCollectives, WithOneAllThatStartedBeforeItHaveLanded) {
  expect_rewrite(
      landed(1 << 20),
      "%g = f(%x)\n%a = all_reduce_start(%g, sum, data)\n%h = f(%x)\n%b = all_reduce_start(%h, sum, data)\n"
      "done(%b)\n%y = f(%b)\ndone(%a)\n%u = f(%a, %y)",
      "%g = f(%x)\n%a = all_reduce_start(%g, sum, data)\n%h = f(%x)\n%b = all_reduce_start(%h, sum, data)\n"
      "done(%a, %b)\n%y = f(%b)\n%u = f(%a, %y)");
}

TEST(LandCollectives, OperandsOfALoopAreBoundedInIt) {
  expect_rewrite(landed(0),
                 "repeat(3) {\n%g = f(%x)\n%a = all_reduce_start(%g, sum, data)\n%h = f(%x)\n"
                 "%b = all_reduce_start(%h, sum, data)\ndone(%a)\ndone(%b)\n%t = accumulate(%a)\n"
                 "%s = accumulate(%b)\n}\n%u = f(%s, %t)",
                 "repeat(3) {\n%g = f(%x)\n%a = all_reduce_start(%g, sum, data)\n%h = f(%x)\ndone(%a)\n"
                 "%b = all_reduce_start(%h, sum, data)\ndone(%b)\n%t = accumulate(%a)\n"
                 "%s = accumulate(%b)\n}\n%u = f(%s, %t)");
}

TEST(LandCollectives, ScratchMemoryOfSeveralTakesNoMoreThanThatOfTheLargest) {
  const auto scratch = [](const Program& program, const Instruction& instruction) {
    return instruction.outputs[0] == value_called(program, "c") ? int64_t{300} : int64_t{200};
  };
  const auto pass = [&](Program p) {
    return land_collectives(std::move(p), {.more = 2 * kValueBytes, .scratch = scratch});
  };
  // 512 bytes are allowed.
  expect_rewrite(
      pass, kThreeGradients,
      "%g = f(%x)\n%a = all_reduce_start(%g, sum, data)\n%h = f(%x)\n%b = all_reduce_start(%h, sum, data)\n"
      "%i = f(%x)\ndone(%a)\n%c = all_reduce_start(%i, sum, data)\ndone(%b)\ndone(%c)\n%u = f(%a, %b, %c)");
}

}  // namespace
}  // namespace mtf::testing
