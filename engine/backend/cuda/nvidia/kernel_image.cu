#include "engine/backend/cuda/device/kernel_launch.h"
#include "engine/backend/cuda/nvidia/kernel_image.h"

namespace mtf::cuda {
namespace {

struct Nothing {
  MTF_DEVICE void operator()(const Block&) const {}
};

}  // namespace

cudaError_t find_kernel_image() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, run_body<Nothing>);
}

}  // namespace mtf::cuda
