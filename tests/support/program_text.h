// Programs from text, so that a pass is tested by how it rewrites a few lines:
//
//   expect_rewrite(fuse_reduce_scatter,
//                  "%a = all_reduce(%g, sum, data)\n%s = slice(%a, d_model, data)",
//                  "%s = reduce_scatter(%g, sum, d_model, data)");
//
// Lines have the format of Program::to_string, on a mesh data=2, model=2. Names that no line defines are
// parameters f32[batch=8, d_model=8], partial where they are reduced. Lines in front may declare them
// otherwise:
//   param %g: f32[batch=8, d_model=8/data] partial sum over model
//   variable %w: f32[batch=8/data, d_model=8]
//   output %y
// Collectives, slice, done, copy, accumulate, place and repeat are the instructions of these names; every
// other name is an opaque local operation. Its results have the type of its first operand, or an explicit
// one: "%y = relu(%x) : f32[batch=8/data, d_model=8]". At the end of a line, "{layer 2, backward, in_place
// 0}" (or "update") gives the provenance of an instruction and the operand that it may overwrite.
#pragma once

#include <functional>
#include <string>

#include "engine/spmd/program.h"

namespace mtf::testing {

Program parse_program(const std::string& text);

/// The instructions, without types. Values that a pass has added are called %new_1, %new_2, ...
std::string instructions_text(const Program& program);

/// Expects that `pass` rewrites the lines `before` to `after`.
void expect_rewrite(const std::function<Program(Program)>& pass, const std::string& before,
                    const std::string& after);

/// The value called `name` (without %).
ValueId value_called(const Program& program, const std::string& name);

}  // namespace mtf::testing
