// Kernels of floor_divide and modulo.
#include "engine/backend/cuda/elementwise/binary.h"

namespace mtf::cuda {
namespace {

const DeviceKernelRegistration division_kernels[] = {
    floating_binary<formulas::FloorDivide>("floor_divide"),
    integer_binary<formulas::FloorDivide>("floor_divide"),
    floating_binary<formulas::Modulo>("modulo"),
    integer_binary<formulas::Modulo>("modulo"),
};

}  // namespace
}  // namespace mtf::cuda
