// Kernels of the activations of engine/ops/component_wise.h.
#include "engine/backend/cuda/elementwise/component_wise.h"

namespace mtf::cuda {
namespace {

const DeviceKernelRegistration activations_kernels[] = {
    component_wise<formulas::Relu>("relu"),         component_wise<formulas::LeakyRelu>("leaky_relu"),
    component_wise<formulas::Elu>("elu"),           component_wise<formulas::Selu>("selu"),
    component_wise<formulas::Softplus>("softplus"), component_wise<formulas::Sigmoid>("sigmoid"),
    component_wise<formulas::Tanh>("tanh"),         component_wise<formulas::Swish>("swish"),
    component_wise<formulas::Gelu>("gelu"),         component_wise<formulas::SquaredRelu>("squared_relu"),
};

}  // namespace
}  // namespace mtf::cuda
