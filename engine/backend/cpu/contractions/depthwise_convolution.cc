#include "engine/backend/cpu/contractions/depthwise_convolution.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/backend/cpu/contractions/gemm.h"
#include "engine/backend/element.h"
#include "engine/backend/scratch_parts.h"
#include "engine/base/integer_division.h"

namespace mtf {
namespace {

/// What is summed along a dimension with windows for one index of the result: `count` products, the first of indices a and b
/// of A and B.
struct Terms {
  int64_t count = 0, a = 0, b = 0;
};

/// The distances of neighbouring products.
struct TermSteps {
  int64_t a = 0, b = 0;
};

/// The indices i for which first <= begin + i * step < end, as far as i < count; step is not 0.
std::pair<int64_t, int64_t> indices_within(int64_t begin, int64_t step, int64_t first, int64_t end,
                                           int64_t count) {
  const auto from =
      [&](int64_t bound) {  // the least i with begin + i * step >= bound, or <= bound if step < 0
        return step > 0 ? -floor_divide(begin - bound, step) : -floor_divide(bound - begin, -step);
      };
  const int64_t low = std::max<int64_t>(0, step > 0 ? from(first) : from(end - 1));
  const int64_t high = std::min(count, step > 0 ? from(end) : from(first - 1));
  return {low, std::max(low, high)};
}

/// A dimension with windows as the kernel sees it.
class TermLine {
 public:
  TermLine(Convolution::Role result, const WindowAxis& axis) : result_(result), axis_(axis) {
    const Window& w = axis.window();
    const int64_t divisor = std::gcd(w.stride, w.dilation);
    if (result == Convolution::kWindows) steps_ = {w.dilation, 1};
    if (result == Convolution::kFilter) steps_ = {w.stride, 1};
    if (result == Convolution::kEntries) steps_ = {-(w.dilation / divisor), w.stride / divisor};
  }

  int64_t size() const {
    if (result_ == Convolution::kFilter) return axis_.window().size;
    return result_ == Convolution::kWindows ? axis_.placed.windows : axis_.placed.entries;
  }
  const TermSteps& steps() const { return steps_; }

  /// The terms of index `i` of the result, those in padding left out.
  Terms terms(const Window::Local& local, int64_t i) const {
    const Window& w = axis_.window();
    if (result_ == Convolution::kWindows) {
      const int64_t begin = i * w.stride + local.origin;
      const auto [low, high] = indices_within(begin, w.dilation, local.first_entry, local.end_entry, w.size);
      return {high - low, begin + low * w.dilation, low};
    }
    if (result_ == Convolution::kFilter) {
      const int64_t begin = i * w.dilation + local.origin;
      const auto [low, high] =
          indices_within(begin, w.stride, local.first_entry, local.end_entry, axis_.placed.windows);
      return {high - low, begin + low * w.stride, low};
    }
    // The places k, k + every, ... of the filter meet this entry, at the windows (i - origin - k * dilation) / stride.
    for (int64_t k = 0; k < std::min(steps_.b, w.size); ++k) {
      const int64_t offset = i - local.origin - k * w.dilation;
      if (floor_modulo(offset, w.stride) != 0) continue;
      const int64_t begin = floor_divide(offset, w.stride);
      const auto [low, high] = indices_within(begin, steps_.a, local.first_window, local.end_window,
                                              ceil_divide(w.size - k, steps_.b));
      return {high - low, begin + low * steps_.a, k + low * steps_.b};
    }
    return {};
  }

 private:
  Convolution::Role result_;
  const WindowAxis& axis_;
  TermSteps steps_;
};

/// Multiplies elements of type T to a result of type Out, which is T or float32.
template <class T, class Out>
class DepthwiseConvolutionKernel final : public Kernel {
 public:
  explicit DepthwiseConvolutionKernel(ConvolutionPlan plan) : plan_(std::move(plan)) {
    for (const WindowAxis& axis : plan_.windows) {
      lines_.emplace_back(plan_.result, axis);
      blocks_ *= axis.placed.blocks;
      grid_ *= lines_.back().size();
      terms_ += lines_.back().size();
      products_ *= axis.placed.windows * (plan_.sums_images() ? 1 : axis.window().size);
    }
    images_ = size_of(plan_.images);
    channels_ = size_of(plan_.loops);
    // A task computes some places of a filter, or some images of another result.
    rows_ = plan_.sums_images() ? grid_ : blocks_ * images_;
    const int64_t elements = (plan_.sums_images() ? 1 : grid_) * channels_;
    rows_at_once_ = plan_.sums_images() ? 1 : std::clamp<int64_t>(kElementsPerTask / elements, 1, rows_);
  }

  int64_t tasks() const override { return ceil_divide(rows_, rows_at_once_); }
  size_t scratch_bytes() const override { return Scratch(*this, nullptr).bytes; }

  int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
    const int64_t first = begin * rows_at_once_, last = std::min(rows_, end * rows_at_once_);
    int64_t products = 0;
    if (plan_.sums_images()) {
      for (int64_t place = first; place < last; ++place) products += sum_images(call, place);
    } else {
      for (int64_t image = first; image < last; ++image) products += compute_image(call, image);
    }
    return 2 * products * channels_;
  }

 private:
  using C = Computed<T>;

  struct Scratch {
    Scratch(const DepthwiseConvolutionKernel& kernel, std::byte* memory) {
      ScratchParts parts(memory);
      terms = parts.take<Terms>(kernel.terms_);
      sums = parts.take<C>(kernel.channels_);
      bytes = parts.bytes();
    }
    Terms* terms;  ///< [terms]: for each index of the result, one dimension after the other
    C* sums;
    size_t bytes;
  };

  /// Moves to a block, and fills in the terms there.
  Offsets<3> enter_block(const KernelCall& call, int64_t block, const Scratch& scratch) const {
    Offsets<3> at{};
    Terms* terms = scratch.terms + terms_;
    for (size_t w = plan_.windows.size(); w-- > 0;) {
      const WindowAxis& axis = plan_.windows[w];
      const int64_t here = block % axis.placed.blocks;
      for (size_t i = 0; i < 3; ++i) at[i] += here * axis.block_strides[i];
      const Window::Local local = axis.placed.local(call, here);
      terms -= lines_[w].size();
      for (int64_t i = 0; i < lines_[w].size(); ++i) terms[i] = lines_[w].terms(local, i);
      block /= axis.placed.blocks;
    }
    return at;
  }

  int64_t compute_image(const KernelCall& call, int64_t index) const {
    const Scratch scratch(*this, call.scratch);
    Offsets<3> at = enter_block(call, index / images_, scratch);
    const Offsets<3> image = offsets_of(plan_.images, index % images_);
    for (size_t i = 0; i < 3; ++i) at[i] += image[i];
    std::array<const Terms*, kMostWindows> chosen{};
    compute_along(call, 0, at, scratch.terms, chosen, scratch);
    return products_;
  }

  void compute_along(const KernelCall& call, size_t w, Offsets<3> at, const Terms* terms,
                     std::array<const Terms*, kMostWindows>& chosen, const Scratch& scratch) const {
    if (w == plan_.windows.size()) {
      std::fill(scratch.sums, scratch.sums + channels_, C(0));
      add(call, 0, at, chosen, scratch.sums);
      store(call, at[kC], scratch.sums);
      return;
    }
    for (int64_t i = 0; i < lines_[w].size(); ++i, at[kC] += plan_.windows[w].strides[kC]) {
      chosen[w] = terms + i;
      compute_along(call, w + 1, at, terms + lines_[w].size(), chosen, scratch);
    }
  }

  int64_t sum_images(const KernelCall& call, int64_t place) const {
    const Scratch scratch(*this, call.scratch);
    std::fill(scratch.sums, scratch.sums + channels_, C(0));
    int64_t to = 0;
    std::array<int64_t, kMostWindows> index{};
    for (size_t w = plan_.windows.size(); w-- > 0;) {
      index[w] = place % lines_[w].size();
      to += index[w] * plan_.windows[w].strides[kC];
      place /= lines_[w].size();
    }
    for (int64_t block = 0; block < blocks_; ++block) {
      const Offsets<3> at = enter_block(call, block, scratch);
      std::array<const Terms*, kMostWindows> chosen{};
      const Terms* terms = scratch.terms;
      for (size_t w = 0; w < plan_.windows.size(); terms += lines_[w].size(), ++w)
        chosen[w] = terms + index[w];
      for_each_offset(plan_.images, 0, images_, [&](const Offsets<3>& image) {
        Offsets<3> here = at;
        for (size_t i = 0; i < 3; ++i) here[i] += image[i];
        add(call, 0, here, chosen, scratch.sums);
      });
    }
    store(call, to, scratch.sums);
    return blocks_ * images_ * products_;
  }

  /// Adds the products of the terms chosen along the dimensions from `w` on.
  void add(const KernelCall& call, size_t w, Offsets<3> at,
           const std::array<const Terms*, kMostWindows>& chosen, C* sums) const {
    const Terms& terms = *chosen[w];
    const WindowAxis& axis = plan_.windows[w];
    const int64_t a_step = lines_[w].steps().a * axis.strides[kA],
                  b_step = lines_[w].steps().b * axis.strides[kB];
    at[kA] += terms.a * axis.strides[kA];
    at[kB] += terms.b * axis.strides[kB];
    const bool entries = plan_.result == Convolution::kEntries;
    if (w + 1 == plan_.windows.size()) {
      if (terms.count > 0)
        add_products(Products<T>{.a = call.input<T>(entries ? 1 : 0) + at[kA],
                                 .b = call.input<T>(entries ? 0 : 1) + at[kB],
                                 .a_stride = a_step,
                                 .b_stride = b_step,
                                 .depth = terms.count,
                                 .size = channels_},
                     sums);
      return;
    }
    for (int64_t i = 0; i < terms.count; ++i, at[kA] += a_step, at[kB] += b_step)
      add(call, w + 1, at, chosen, sums);
  }

  void store(const KernelCall& call, int64_t to, const C* sums) const {
    Out* out = call.output<Out>(0) + to;
    for (int64_t c = 0; c < channels_; ++c) out[c] = narrow<Out>(sums[c]);
  }

  ConvolutionPlan plan_;
  std::vector<TermLine> lines_;
  int64_t images_ = 1, blocks_ = 1, channels_ = 1;
  int64_t grid_ = 1, terms_ = 0;  ///< entries of a block of the result; indices of its dimensions in all
  int64_t products_ = 1;  ///< for an image (and a place of the filter) and a channel, with those of padding
  int64_t rows_ = 1, rows_at_once_ = 1;
};

template <class T>
std::unique_ptr<Kernel> make(const KernelContext& context, const ConvolutionOperands& operands) {
  ConvolutionPlan plan(operands, context);
  if (context.outputs[0].dtype == DTypeOf<T>::value)
    return std::make_unique<DepthwiseConvolutionKernel<T, T>>(std::move(plan));
  return std::make_unique<DepthwiseConvolutionKernel<T, Computed<T>>>(std::move(plan));
}

}  // namespace

std::unique_ptr<Kernel> depthwise_convolution_kernel(const ConvolutionOperands& operands,
                                                     const KernelContext& context) {
  const ConvolutionClasses& classes = operands.classes;
  if (classes.inputs.rank() + classes.outputs.rank() > 0 || classes.groups.rank() == 0) return nullptr;
  for (const LocalTensor* x : operands.by_role) {
    const std::vector<Dimension>& dimensions = x->global.dimensions();
    if (!std::ranges::equal(classes.groups.dimensions().rbegin(), classes.groups.dimensions().rend(),
                            dimensions.rbegin(), dimensions.rbegin() + classes.groups.rank()))
      return nullptr;
  }
  switch (context.inputs[0].dtype) {
    case DType::kBFloat16:
      return make<BFloat16>(context, operands);
    case DType::kFloat64:
      return make<double>(context, operands);
    default:
      return make<float>(context, operands);
  }
}

}  // namespace mtf
