// Names of instructions in messages.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/error.h"
#include "engine/spmd/program.h"

namespace mtf {

/// The program's line of an instruction without the padding between its columns.
std::string instruction_text(const Program& program, const Instruction& instruction);

/// `error` of a device with the instruction that it has failed in.
Error located_error(const Program& program, const Instruction& instruction, std::string_view device,
                    const Error& error);

}  // namespace mtf
