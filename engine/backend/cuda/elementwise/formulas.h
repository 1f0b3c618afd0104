// The formulas of elementwise functions with a GPU's functions: formulas::Gelu stands for
// formulas::Gelu<Math>.
#pragma once

#include "engine/backend/cuda/device/math.h"
#include "engine/ops/binary_formulas.h"
#include "engine/ops/unary_formulas.h"

namespace mtf::cuda::formulas {

#define MTF_FORMULA_OF_GPU(Formula, name) using Formula = mtf::formulas::Formula<Math>;
MTF_UNARY_FUNCTIONS(MTF_FORMULA_OF_GPU)
MTF_BINARY_FUNCTIONS(MTF_FORMULA_OF_GPU)
#undef MTF_FORMULA_OF_GPU

}  // namespace mtf::cuda::formulas
