// Convolutions with filters of 3 x 3 by Winograd's minimal filtering F(2x2, 3x3) (Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", arXiv 1509.09308), with 4 / 9 of the multiplications.
//
//   windows, entries:  y = At [(G g Gt) * (Bt d B)] A       for tiles d of 4 x 4 and y of 2 x 2
//   filter:            g = Gt [(Bt d B) * (A y At)] G
//
// where * multiplies elementwise and sums over channels (or tiles): 16 matrix products.
#pragma once

#include <memory>

#include "engine/backend/cpu/contractions/convolution_plan.h"
#include "engine/backend/kernel.h"

namespace mtf {

/// The kernel of a convolution, or null where the method does not fit or does not pay (Convolution::suits_winograd).
std::unique_ptr<Kernel> winograd_kernel(const ConvolutionOperands& operands, const KernelContext& context);

}  // namespace mtf
