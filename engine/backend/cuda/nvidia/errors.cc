#include "engine/backend/cuda/nvidia/errors.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "engine/backend/cuda/device/kernel_launch.h"
#include "engine/backend/cuda/device/submission.h"
#include "engine/base/check.h"

namespace mtf::cuda {
namespace {

/// Formats 13000 as "13.0".
std::string cuda_version(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

/// The CUDA version of the driver; 0 if there is none.
int driver_version() {
  int version = 0;
  ignore(cudaDriverGetVersion(&version));
  return version;
}

Error driver_error() {
  const int driver = driver_version();
  if (driver == 0) {
    return {ErrorKind::kNoDevice, "there is no NVIDIA driver on this machine (libcuda.so.1)",
            "install it; in a container: start it with --gpus all; or use `devices: cpu`"};
  }
  return {ErrorKind::kSystem,
          fmt::format("the NVIDIA driver knows CUDA {}, but this build needs {}", cuda_version(driver),
                      cuda_version(CUDART_VERSION)),
          "install a newer driver (nvidia-smi shows its version), or build with an older CUDA toolkit"};
}

Error no_device_error() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return {ErrorKind::kNoDevice,
          visible == nullptr
              ? "there is no GPU that CUDA can use"
              : fmt::format("there is no GPU that CUDA can use; CUDA_VISIBLE_DEVICES is \"{}\"", visible),
          "`nvidia-smi` lists the machine's GPUs; or use `devices: cpu`"};
}

/// What a user can do about an error; empty if there is no special advice.
std::string hint_of(cudaError_t code) {
  switch (code) {
    case cudaErrorDeviceAlreadyInUse:
    case cudaErrorDevicesUnavailable:
      return "another program has the GPU for itself, or it is in compute mode `prohibited` (nvidia-smi -q "
             "-d COMPUTE)";
    case cudaErrorSystemNotReady:
      return "machines with NVSwitch need the service nvidia-fabricmanager, in the driver's version";
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
      return "the driver's library and its kernel module differ: restart the machine after an update of the "
             "driver";
    case cudaErrorOperatingSystem:
    case cudaErrorInitializationError:
      return "`nvidia-smi` tells more; in a container the devices /dev/nvidia* must be there";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return "build with CMAKE_CUDA_ARCHITECTURES for this GPU";
    case cudaErrorMemoryAllocation:
      return "use smaller batches, `train.microbatches`, or split more dimensions";
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
      return "the hardware is damaged or needs a reset: see `nvidia-smi -q` and the kernel's log (Xid)";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
      return failed_kernel_hint();
    default:
      return "";
  }
}

}  // namespace

Error cuda_error(cudaError_t code, std::string_view doing) {
  cudaGetLastError();  // clears the error unless it is permanent
  if (code == cudaErrorInsufficientDriver || code == cudaErrorStubLibrary) return driver_error();
  if (code == cudaErrorNoDevice) return no_device_error();
  return {code == cudaErrorMemoryAllocation ? ErrorKind::kMemory : ErrorKind::kSystem,
          fmt::format("CUDA, {}: {} ({})", doing, cudaGetErrorString(code), cudaGetErrorName(code)),
          hint_of(code)};
}

/// Each driver runs programs of its own major version of CUDA and of older ones.
void check_driver() {
  if (driver_version() / 1000 < CUDART_VERSION / 1000) throw driver_error();
}

unsigned grid_blocks(int64_t blocks) {
  MTF_CHECK(blocks > 0 && blocks <= kMostGridBlocks, "a launch of {} blocks", blocks);
  return static_cast<unsigned>(blocks);
}

void check_launch(int code) { check(static_cast<cudaError_t>(code), "starting a kernel"); }

}  // namespace mtf::cuda
