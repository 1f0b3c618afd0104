// The text of kernels for fusions of elementwise operations.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "engine/backend/cuda/fusion/fusion.h"

namespace mtf::cuda {

/// `struct Fusion`, a function object over a Block whose members are FusionArguments, a Strided<1> for each
/// input that walks, and the FusionDropouts. The same text for fusions that are alike.
std::string fusion_source(const Fusion& fusion);

/// Of what such an object is told.
size_t fusion_bytes(const Fusion& fusion);

struct FusionKernelSource {
  std::string name;
  std::string fusion;  ///< fusion_source()
  bool in_batches = false;
};

/// The whole text that a compiler is given: a kernel (MTF_FUSION_KERNEL) for each.
std::string fusion_program(std::span<const FusionKernelSource> kernels);

/// A file that such texts include.
struct SourceFile {
  const char* name;  ///< "engine/backend/cuda/elementwise/formulas.h"
  const char* text;
};
/// All of them but those of the standard library: put into the program when it is built.
std::span<const SourceFile> kernel_sources();

}  // namespace mtf::cuda
