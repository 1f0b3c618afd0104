// Generates the text of kernels for fusions of elementwise operations.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "engine/backend/cuda/fusion/fusion.h"

namespace mtf::cuda {

/// The text of `struct Fusion`, a function object over a Block whose members are FusionArguments, a
/// Strided<1> for each input with a walk, and the FusionDropouts. Equal fusions have the same text.
std::string fusion_source(const Fusion& fusion);

/// The size of the members of such an object.
size_t fusion_bytes(const Fusion& fusion);

struct FusionKernelSource {
  std::string name;
  std::string fusion;  ///< from fusion_source()
  bool in_batches = false;
};

/// The whole text for a compiler, with a kernel (MTF_FUSION_KERNEL) for each element of `kernels`.
std::string fusion_program(std::span<const FusionKernelSource> kernels);

/// A file that such texts include.
struct SourceFile {
  const char* name;  ///< such as "engine/backend/cuda/elementwise/formulas.h"
  const char* text;
};
/// All such files except those of the standard library; they are embedded in the program when it is built.
std::span<const SourceFile> kernel_sources();

}  // namespace mtf::cuda
