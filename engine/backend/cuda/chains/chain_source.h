// The text of kernels for chains of element-wise operations.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "engine/backend/cuda/chains/chain.h"

namespace mtf::cuda {

/// `struct Chain`, a function object over a Block whose members are ChainArguments, a Strided<1> for each
/// input that walks, and the ChainDropouts. The same text for chains that are alike.
std::string chain_source(const Chain& chain);

/// The whole text that a compiler is given: a kernel (MTF_CHAIN_KERNEL) for each (name, chain_source()).
std::string chain_program(std::span<const std::pair<std::string, std::string>> kernels);

/// A file that such texts include.
struct SourceFile {
  const char* name;  ///< "engine/backend/cuda/elementwise/formulas.h"
  const char* text;
};
/// All of them but those of the standard library: put into the program when it is built.
std::span<const SourceFile> kernel_sources();

}  // namespace mtf::cuda
