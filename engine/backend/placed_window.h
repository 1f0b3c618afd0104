// Windows on one mesh position: how many entries and windows its slices have, and where in all of them these are.
#pragma once

#include <cstdint>
#include <string>

#include "engine/backend/kernel.h"
#include "engine/ops/window.h"

namespace mtf {

struct PlacedWindow {
  Window window = {};
  int64_t entries = 0, windows = 0;  ///< in the slices; in block form of each block, with margins
  int64_t blocks = 1;                ///< in the slices

  /// `entries_operand`, `windows_operand`: the operands that have them; one of them is an input.
  PlacedWindow(const KernelContext& context, const Window& window, const LocalTensor& entries_operand,
               const LocalTensor& windows_operand)
      : window(window),
        entries(size(entries_operand, window.dimension)),
        windows(size(windows_operand, window.dimension)) {
    if (window.blocks.empty()) return;
    blocks = size(entries_operand, window.blocks);
    for (size_t i = 0; i < context.inputs.size(); ++i) {
      if (const auto axis = context.inputs[i].global.find(window.blocks))
        input_ = static_cast<int>(i), axis_ = *axis;
    }
  }

  /// The number, of all blocks, of block `block` of those in the slices.
  int64_t number(const KernelCall& call, int64_t block) const {
    return block + (input_ < 0 ? 0 : call.inputs[static_cast<size_t>(input_)].begin[axis_]);
  }
  /// The geometry of block `block` of those in the slices.
  Window::Local local(const KernelCall& call, int64_t block) const {
    return window.local(number(call, block), entries, windows);
  }

 private:
  static int64_t size(const LocalTensor& x, const std::string& dimension) {
    return x.local[*x.global.find(dimension)].size;
  }

  int input_ = -1, axis_ = 0;  ///< where the number of the first block is found
};

}  // namespace mtf
