// The text of kernels for chains of element-wise operations.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "engine/backend/cuda/chains/chain.h"

namespace mtf::cuda {

/// `struct Chain`, a function object over a Block whose members are ChainArguments, a Strided<1> for each
/// input that walks, and the ChainDropouts. The same text for chains that are alike.
std::string chain_source(const Chain& chain);

/// Of what such an object is told.
size_t chain_bytes(const Chain& chain);

struct ChainKernelSource {
  std::string name;
  std::string chain;  ///< chain_source()
  bool in_batches = false;
};

/// The whole text that a compiler is given: a kernel (MTF_CHAIN_KERNEL) for each.
std::string chain_program(std::span<const ChainKernelSource> kernels);

/// A file that such texts include.
struct SourceFile {
  const char* name;  ///< "engine/backend/cuda/elementwise/formulas.h"
  const char* text;
};
/// All of them but those of the standard library: put into the program when it is built.
std::span<const SourceFile> kernel_sources();

}  // namespace mtf::cuda
