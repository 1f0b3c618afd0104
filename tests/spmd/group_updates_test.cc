// Tests which operations of an update are merged into one instruction.
#include <gtest/gtest.h>

#include "engine/spmd/passes/passes.h"
#include "tests/support/program_text.h"

namespace mtf::testing {
namespace {

const std::string kVariables =
    "variable %v: f32[batch=8, d_model=8]\nvariable %w: f32[batch=8, d_model=8]\n"
    "variable %x: f32[batch=8, d_model=8]\n";

void expect_groups(const std::string& before, const std::string& after) {
  expect_rewrite(group_updates, kVariables + before, after);
}

void expect_unchanged(const std::string& text) {
  expect_groups(text, instructions_text(parse_program(kVariables + text)));
}

TEST(GroupUpdates, JoinsThoseOfOneKind) {
  expect_groups(
      "%a = sgd_update(%v, %f) {update}\n%b = sgd_update(%w, %g) {update}\n"
      "%c = sum_of_squares(%h) {update}\n%d = sgd_update(%x, %h) {update}",
      "%a, %b, %d = multi_tensor(%v, %f, %w, %g, %x, %h, 3 sgd_update)\n%c = sum_of_squares(%h)");
}

TEST(GroupUpdates, LeavesOperationsOutsideTheUpdateAndThoseItDoesNotKnow) {
  expect_unchanged("%a = multiply(%v, %f)\n%b = multiply(%w, %f) {backward}");
  expect_unchanged("%a = relu(%v) {update}\n%b = relu(%w) {update}");
}

TEST(GroupUpdates, KeepsGuardsTypesAndSpreadsApart) {
  expect_unchanged("%a = sgd_update(%v, %f) if %p {update}\n%b = sgd_update(%w, %g) if %q {update}");
  expect_unchanged(
      "param %z: f64[batch=8, d_model=8]\n%a = sgd_update(%v, %f) {update}\n"
      "%b = sgd_update(%z, %g) {update}");
  expect_unchanged(
      "param %z: f32[batch=8/data, d_model=8]\n%a = sgd_update(%v, %f) {update}\n"
      "%b = sgd_update(%z, %g) {update}");
  expect_groups("%a = sgd_update(%v, %f) if %p {update}\n%b = sgd_update(%w, %g) if %p {update}",
                "%a, %b = multi_tensor(%v, %f, %w, %g, 2 sgd_update) if %p");
}

TEST(GroupUpdates, OneMemberDoesNotReadOrOverwriteWhatAnotherHas) {
  expect_unchanged("%a = sgd_update(%v, %f) {update}\n%b = sgd_update(%w, %a) {update}");
  expect_unchanged(
      "%a = sgd_update(%v, %f) {update}\n%y = relu(%a) {update}\n"
      "%b = sgd_update(%w, %y) {update}");
}

TEST(GroupUpdates, BringsWhatLaterMembersNeed) {
  expect_groups(
      "%y = relu(%f) {update}\n%a = sgd_update(%v, %y) {update}\n%z = relu(%g) {update}\n"
      "%b = sgd_update(%w, %z) {update}\n%r = relu(%b) {update}",
      "%y = relu(%f)\n%z = relu(%g)\n%a, %b = multi_tensor(%v, %y, %w, %z, 2 sgd_update)\n%r = relu(%b)");
}

TEST(GroupUpdates, LeavesWhatWaitsForACollective) {
  expect_unchanged(
      "%s = all_reduce_start(%g, sum, data)\n%a = sgd_update(%v, %f) {update}\ndone(%s)\n"
      "%b = sgd_update(%w, %s) {update}");
  expect_groups(
      "%a = sgd_update(%v, %f) {update}\n%s = all_reduce(%g, sum, data)\n"
      "%b = sgd_update(%w, %f) {update}",
      "%a, %b = multi_tensor(%v, %f, %w, %f, 2 sgd_update)\n%s = all_reduce(%g, sum, data)");
}

TEST(GroupUpdates, MakesLittleBeforeItIsWanted) {
  const std::string third = std::to_string(kGroupBytes / 3 / 4 / 8);
  std::string text;
  for (const char* name : {"a", "b", "c", "d"})
    text += "%" + std::string(name) + " = multiply(%" + name + "_g, %f) : f32[batch=8, d_model=" + third +
            "] {update}\n";
  expect_groups(
      text, "%a, %b, %c = multi_tensor(%a_g, %f, %b_g, %f, %c_g, %f, 3 multiply)\n%d = multiply(%d_g, %f)");
}

}  // namespace
}  // namespace mtf::testing
