// NoiseIndex maps each element of a slice to its random number: the element's global row-major index in the
// noise shape, which covers the whole batch inside a microbatch loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/backend/kernel.h"
#include "engine/backend/strided.h"
#include "engine/ops/random.h"

namespace mtf {

/// The random numbers of a slice of a tensor. Elements that differ only in dimensions outside `noise` share
/// one.
class NoiseIndex {
 public:
  /// The noise's elements are numbered from `first` on.
  NoiseIndex(const LocalTensor& tensor, const Shape& noise, const Microbatching& microbatching,
             int64_t first = 0)
      : first_(first) {
    Shape whole = noise;
    const auto batch = noise.find(microbatching.dimension);
    if (batch) whole = noise.resized(microbatching.dimension, noise[*batch].size * microbatching.count);
    const std::vector<int64_t> strides = whole.strides();
    for (const Dimension& d : tensor.local) {
      const auto axis = noise.find(d.name);
      int64_t step = axis ? strides[*axis] : 0;
      if (axis && axis == batch) {
        iteration_step_ = step;
        step *= microbatching.count;
      }
      steps_.push_back(step);
      axes_.push_back({d.size, {step}});
    }
    axes_ = joined(axes_);
    walk_ = axes_;
    if (!axes_.empty()) {
      run_ = axes_.back().size;
      run_step_ = axes_.back().strides[0];
      axes_.pop_back();
    }
  }

  /// The distance in the noise between adjacent elements of a run; 0 if they share one number.
  int64_t run_step() const { return run_step_; }

  /// The axes of all elements of the slice, with strides in noise elements.
  const StridedAxes<1>& walk() const { return walk_; }

  /// The noise element that belongs to the first element of the slice that starts at `slice_begin`.
  int64_t origin(const int64_t* slice_begin, int64_t iteration) const {
    int64_t origin = first_ + iteration * iteration_step_;
    for (size_t a = 0; a < steps_.size(); ++a) origin += slice_begin[a] * steps_[a];
    return origin;
  }

  /// Calls visit(begin, count, noise) for runs that cover elements [begin, end) of the slice that starts at
  /// `slice_begin`: `count` elements from `begin` on belong to noise elements noise, noise + run_step(), ...
  template <class Visit>
  void for_each_run(const int64_t* slice_begin, int64_t iteration, int64_t begin, int64_t end,
                    Visit visit) const {
    const int64_t first = origin(slice_begin, iteration);
    int64_t row = begin / run_;
    for_each_offset(axes_, row, (end + run_ - 1) / run_, [&](const Offsets<1>& at) {
      const int64_t from = std::max(begin, row * run_), to = std::min(end, (row + 1) * run_);
      visit(from, to - from, first + at[0] + (from - row * run_) * run_step_);
      ++row;
    });
  }

 private:
  StridedAxes<1> walk_;
  StridedAxes<1> axes_;         ///< axes whose entries are runs
  std::vector<int64_t> steps_;  ///< in noise elements, by axis of the tensor
  int64_t first_ = 0, iteration_step_ = 0;
  int64_t run_ = 1, run_step_ = 1;
};

}  // namespace mtf
