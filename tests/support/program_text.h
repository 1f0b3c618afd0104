// Programs from text, so that a pass is tested by what it makes of a few lines:
//
//   expect_rewrite(fuse_reduce_scatter,
//                  "%a = all_reduce(%g, sum, data)\n%s = slice(%a, d_model, data)",
//                  "%s = reduce_scatter(%g, sum, d_model, data)");
//
// A line is what Program::to_string prints, on a mesh data=2, model=2. Names that no line makes are
// parameters, f32[batch=8, d_model=8], partial where they are reduced; lines in front may say otherwise:
//   param %g: f32[batch=8, d_model=8/data] partial sum over model
//   variable %w: f32[batch=8/data, d_model=8]
//   output %y
// Collectives, slice, done, copy, accumulate, place and repeat are themselves; every other name is an opaque
// local operation. Its results have the type of its first operand, or the one that follows: "%y = relu(%x) :
// f32[batch=8/data, d_model=8]". At the end, "{layer 2, backward, in_place 0}" (or "update") says where an
// instruction comes from and which operand it may overwrite.
#pragma once

#include <functional>
#include <string>

#include "engine/spmd/program.h"

namespace mtf::testing {

Program parse_program(const std::string& text);

/// The instructions, without types; values that a pass has added are called %new_1, %new_2, ...
std::string instructions_text(const Program& program);

/// `pass` makes the lines `after` of `before`.
void expect_rewrite(const std::function<Program(Program)>& pass, const std::string& before,
                    const std::string& after);

/// The value called `name` (without %).
ValueId value_called(const Program& program, const std::string& name);

}  // namespace mtf::testing
