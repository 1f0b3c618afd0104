// Kernels of the gradients of the activations of engine/ops/component_wise.h.
#include "engine/backend/cuda/elementwise/component_wise.h"

namespace mtf::cuda {
namespace {

const DeviceKernelRegistration activation_gradients_kernels[] = {
    component_wise_gradient<formulas::Relu>("relu_gradient"),
    component_wise_gradient<formulas::LeakyRelu>("leaky_relu_gradient"),
    component_wise_gradient<formulas::Elu>("elu_gradient"),
    component_wise_gradient<formulas::Selu>("selu_gradient"),
    component_wise_gradient<formulas::Softplus>("softplus_gradient"),
    component_wise_gradient<formulas::Sigmoid>("sigmoid_gradient"),
    component_wise_gradient<formulas::Tanh>("tanh_gradient"),
    component_wise_gradient<formulas::Swish>("swish_gradient"),
    component_wise_gradient<formulas::Gelu>("gelu_gradient"),
    component_wise_gradient<formulas::SquaredRelu>("squared_relu_gradient"),
};

}  // namespace
}  // namespace mtf::cuda
