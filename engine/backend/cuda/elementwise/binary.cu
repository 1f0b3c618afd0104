// Kernels of the arithmetic functions of engine/ops/binary.h.
#include "engine/backend/cuda/elementwise/binary.h"

namespace mtf::cuda {
namespace {

const DeviceKernelRegistration binary_kernels[] = {
    floating_binary<formulas::Add>("add"),           integer_binary<formulas::Add>("add"),
    floating_binary<formulas::Subtract>("subtract"), integer_binary<formulas::Subtract>("subtract"),
    floating_binary<formulas::Multiply>("multiply"), integer_binary<formulas::Multiply>("multiply"),
    floating_binary<formulas::Divide>("divide"),     floating_binary<formulas::Minimum>("minimum"),
    integer_binary<formulas::Minimum>("minimum"),    floating_binary<formulas::Maximum>("maximum"),
    integer_binary<formulas::Maximum>("maximum"),
};

}  // namespace
}  // namespace mtf::cuda
