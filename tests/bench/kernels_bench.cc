// Times single CPU kernels on one thread. Prints GFLOP/s for contractions and ns per element of the first
// input for other kernels: medians of rounds, in CPU time of the thread.
//
//   cmake --build build --target kernels_bench
//   build/bin/kernels_bench [PART_OF_NAME]
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/graph/gradients.h"
#include "engine/ops/adafactor.h"
#include "engine/ops/affine.h"
#include "engine/ops/attention.h"
#include "engine/ops/convolution.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/einsum.h"
#include "engine/ops/int8_product.h"
#include "engine/ops/moments.h"
#include "engine/ops/normalization.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/pool.h"
#include "engine/ops/softmax.h"

namespace mtf {
namespace {

double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// An operation with its own operands.
class Run {
 public:
  explicit Run(const Operation& operation) {
    KernelContext context{operation, {}, {}};
    for (const Tensor& t : operation.inputs()) context.inputs.push_back(operand(t.shape(), t.dtype()));
    for (const OutputInfo& info : operation.outputs())
      context.outputs.push_back(operand(info.shape, info.dtype));
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const Slice slice{reinterpret_cast<std::byte*>(buffers_[i].data()), begin_};
      (i < context.inputs.size() ? inputs_ : outputs_).push_back(slice);
    }
    kernel_ = prepare_cpu_kernel(context);
    scratch_.resize(kernel_->scratch_bytes() / sizeof(float) + 32);
  }
  int64_t tasks() const { return kernel_->tasks(); }

  /// The seconds (median) and FLOPs of one execution, with one run() for all tasks.
  std::pair<double, int64_t> time() {
    const auto address = reinterpret_cast<uintptr_t>(scratch_.data());
    std::byte* scratch = reinterpret_cast<std::byte*>(scratch_.data()) + (64 - address % 64) % 64;
    std::vector<double> seconds;
    int64_t flops = 0, repeats = 1;
    for (int round = 0; round < 12; ++round) {
      const double start = thread_seconds();
      for (int64_t i = 0; i < repeats; ++i)
        flops = kernel_->run({inputs_, outputs_, scratch, &step_}, 0, kernel_->tasks());
      const double spent = (thread_seconds() - start) / static_cast<double>(repeats);
      if (round == 0) repeats = std::clamp<int64_t>(static_cast<int64_t>(0.02 / spent), 1, 100000);
      if (round > 0) seconds.push_back(spent);
    }
    std::sort(seconds.begin(), seconds.end());
    return {seconds[seconds.size() / 2], flops};
  }

 private:
  LocalTensor operand(const Shape& shape, DType dtype) {
    std::vector<float>& buffer = buffers_.emplace_back(shape.size() * size_of(dtype) / sizeof(float) + 1);
    if (dtype == DType::kFloat32) {
      std::mt19937 generator(1);
      std::uniform_real_distribution<float> uniform(0.1f, 1);
      for (float& v : buffer) v = uniform(generator);
    }
    return {shape, shape, shape.strides(), dtype};
  }

  int64_t begin_[8] = {};
  uint64_t step_ = 0;
  std::vector<std::vector<float>> buffers_;
  std::vector<Slice> inputs_, outputs_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<float> scratch_;
};

void report(const std::string& filter, const std::string& what, const Operation& operation) {
  if (what.find(filter) == std::string::npos) return;
  Run run(operation);
  const auto [seconds, flops] = run.time();
  const double elements = static_cast<double>(operation.input(0).shape().size());
  if (flops > 0) {
    std::printf("%-44s %9.1f us %7.1f GF/s %4ld tasks\n", what.c_str(), seconds * 1e6,
                1e-9 * static_cast<double>(flops) / seconds, static_cast<long>(run.tasks()));
  } else {
    std::printf("%-44s %9.1f us %7.3f ns/element %4ld tasks\n", what.c_str(), seconds * 1e6,
                seconds * 1e9 / elements, static_cast<long>(run.tasks()));
  }
}

/// Times one dense layer: forward, dx and dw.
void dense(const std::string& filter, int64_t batch, int64_t in, int64_t out, DType dtype = DType::kFloat32) {
  Graph graph;
  const Dimension b{"batch", batch}, i{"in", in}, o{"out", out};
  const Tensor x = graph.input("x", {b, i}, dtype), w = graph.input("w", {i, o}, dtype),
               dy = graph.input("dy", {b, o}, dtype);
  const std::string shape = " " + std::to_string(batch) + "x" + std::to_string(in) + "x" +
                            std::to_string(out) + " " + std::string(short_name(dtype));
  report(filter, "dense" + shape, einsum({x, w}, {b, o}).operation());
  report(filter, "dense dx" + shape, einsum({dy, w}, {b, i}).operation());
  report(filter, "dense dw" + shape, einsum({dy, x}, {i, o}).operation());
}

/// Times the product of a few rows and a weight of each type that inference has, and the rounding of the rows. A tied weight
/// is a table of embeddings.
void inferred(const std::string& filter, int64_t rows, int64_t in, int64_t out, bool is_tied = false) {
  Graph graph;
  const Dimension b{"batch", rows}, i{"in", in}, o{"out", out};
  const std::string shape = " " + std::to_string(rows) + "x" + std::to_string(in) + "x" +
                            std::to_string(out) + (is_tied ? " tied" : "");
  const Shape weights = is_tied ? Shape{o, i} : Shape{i, o};
  const auto product = [&](const std::string& type, DType dtype) -> const Operation& {
    const Tensor x = graph.input("x " + type, {b, i}, dtype), w = graph.input("w " + type, weights, dtype);
    return graph.add<Einsum>(x, w, Shape{b, o}, DType::kFloat32);
  };
  report(filter, "inferred float32" + shape, product("float32", DType::kFloat32));
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Dimension strips{"out", out / kStripColumns}, strip{"strip", kStripColumns};
    const std::string type = std::string(name_of(dtype)) + " strips";
    const Tensor x = graph.input("x " + type, {b, i}, dtype),
                 w = graph.input("w " + type, {strips, i, strip}, dtype);
    report(filter, "inferred " + type + shape,
           graph.add<Einsum>(x, w, Shape{b, strips, strip}, DType::kFloat32));
  }
  report(filter, "inferred bfloat16" + shape, product("bfloat16", DType::kBFloat16));
  const Quantized codes = quantize_rows(graph.input("x", {b, i}), {i}),
                  weight = quantize_weight(graph.input("w", weights), {o}, {i}, true);
  report(filter, "inferred int8" + shape, int8_product(codes, weight).operation());
  report(filter, "inferred int8 rounding" + shape, codes.codes.operation());
}

void attention(const std::string& filter) {
  Graph graph;
  const Dimension b{"batch", 8}, h{"heads", 4}, l{"length", 256}, m{"memory", 256}, d{"d", 64};
  const Tensor q = graph.input("q", {b, l, h, d}), k = graph.input("k", {b, m, h, d}),
               p = graph.input("p", {b, h, l, m});
  report(filter, "attention q.k 32x(256x256x64)", einsum({q, k}, {b, h, l, m}).operation());
  report(filter, "attention p.v 32x(256x64x256)", einsum({p, k}, {b, l, h, d}).operation());
}

/// Times attention and its gradient, each as one operation.
void fused_attention(const std::string& filter, int64_t batch, int64_t heads, int64_t length, int64_t width,
                     bool causal) {
  Graph graph;
  const Dimension b{"batch", batch}, h{"heads", heads}, l{"length", length}, m{"memory_length", length},
      d{"d_kv", width};
  const Tensor q = graph.input("q", {b, l, h, d}), k = graph.input("k", {b, m, h, d}),
               v = graph.input("v", {b, m, h, d}), noise = graph.input("noise", {b, h, m});
  const Tensor y = mtf::attention({.q = q, .k = k, .v = v, .noise = noise}, {.causal = causal});
  const std::string shape = " " + std::to_string(batch) + "x" + std::to_string(heads) + "x" +
                            std::to_string(length) + "x" + std::to_string(width) + (causal ? " causal" : "");
  report(filter, "attention fused" + shape, y.operation());
  report(filter, "attention gradient" + shape, gradients({y}, {q, k, v})[0].operation());
}

void fused(const std::string& filter) {
  Graph graph;
  const Dimension rows{"rows", 2048}, d{"d", 256}, vocab{"vocab", 8192}, n{"n", 2097152};
  const Tensor x = graph.input("x", {rows, d}), logits = graph.input("logits", {rows, vocab});
  const Tensor wide = graph.input("wide", {{"rows", 8192}, d});
  report(filter, "softmax 8192x256", softmax(wide, "d").operation());
  report(filter, "softmax gradient 8192x256", gradients({softmax(wide, "d")}, {wide})[0].operation());
  const Tensor loss = softmax_cross_entropy(logits, graph.input("t", {rows}, DType::kInt32), "vocab").loss;
  report(filter, "cross-entropy 2048x8192", loss.operation());
  report(filter, "cross-entropy gradient 2048x8192", gradients({loss}, {logits})[0].operation());
  const Tensor few = graph.input("few", {rows, {"classes", 10}});
  report(filter, "cross-entropy 2048x10",
         softmax_cross_entropy(few, graph.input("t10", {rows}, DType::kInt32), "classes").loss.operation());
  const Tensor scale = graph.input("scale", {d});
  const Tensor y = rms_norm(x, "d", scale);
  report(filter, "rms_norm 2048x256", y.operation());
  const Tensors dy = gradients({y}, {x, scale});
  report(filter, "rms_norm gradient 2048x256", dy[0].operation());
  report(filter, "rms_norm parameter gradient 2048x256", dy[1].operation());
  const Tensor w = graph.input("w", {n}), g = graph.input("g", {n}), m = graph.input("m", {n}),
               v = graph.input("v", {n});
  const Tensor rate = graph.input("rate", {});
  report(filter, "sgd 2.1M", sgd_update(w, g, rate).operation());
  report(filter, "adam 2.1M", adam_update(w, g, m, v, rate).weight.operation());
  const Tensor narrow_m = graph.input("narrow_m", {n}, DType::kBFloat16),
               narrow_v = graph.input("narrow_v", {n}, DType::kBFloat16);
  report(filter, "adam 2.1M, slots of bfloat16",
         adam_update(w, g, narrow_m, narrow_v, rate).weight.operation());
  const AdafactorOptions options;
  Tensors slots;
  for (const auto& [name, shape] : adafactor_slots(wide.shape(), options))
    slots.push_back(graph.input(name, shape));
  const size_t before = graph.root().size();
  adafactor_update(wide, graph.input("gw", wide.shape()), slots, rate, rate, options);
  for (size_t i = before; i < graph.root().size(); ++i) {
    const Operation& operation = *graph.root()[i];
    if (operation.name().starts_with("adafactor"))
      report(filter, std::string(operation.name()) + " 8192x256", operation);
  }
}

/// Times a convolution of square images with a square filter: forward, the gradient of the image and of the filter. With no
/// outputs it is depthwise.
void convolutions(const std::string& filter, int64_t batch, int64_t size, int64_t in, int64_t out,
                  int64_t window, int64_t stride = 1) {
  Graph graph;
  const Dimension rows{"rows", size}, cols{"cols", size}, channels{"in", in};
  const Tensor x = graph.input("x", {{"batch", batch}, rows, cols, channels});
  const Shape places{{"k_rows", window}, {"k_cols", window}, channels};
  const Tensor w = graph.input("w", out > 0 ? places + Dimension{"out", out} : places);
  const Tensor y = convolution(x, w,
                               {window_over(rows, {.filter = "k_rows", .size = window, .stride = stride}),
                                window_over(cols, {.filter = "k_cols", .size = window, .stride = stride})},
                               out > 0 ? Shape{} : Shape{channels});
  const std::string shape = fmt::format(" {}x{}x{}x{} {}x{} to {}{}", batch, size, size, in, window, window,
                                        out > 0 ? std::to_string(out) : "themselves",
                                        stride > 1 ? fmt::format(" /{}", stride) : "");
  report(filter, "conv" + shape, y.operation());
  const Tensors d = gradients({y}, {x, w}, {graph.input("dy", y.shape())});
  report(filter, "conv dx" + shape, d[0].operation());
  report(filter, "conv dw" + shape, d[1].operation());
}

void images(const std::string& filter) {
  convolutions(filter, 64, 28, 1, 32, 3);
  convolutions(filter, 64, 28, 16, 16, 3);
  convolutions(filter, 64, 14, 32, 64, 3);
  convolutions(filter, 64, 32, 64, 64, 3);
  convolutions(filter, 64, 32, 64, 128, 3, 2);
  convolutions(filter, 64, 16, 128, 128, 3);
  convolutions(filter, 64, 8, 256, 256, 3);
  convolutions(filter, 64, 4, 512, 512, 3);
  convolutions(filter, 8, 56, 256, 64, 1);
  convolutions(filter, 64, 28, 64, 0, 3);
  convolutions(filter, 64, 28, 64, 0, 5, 2);
  Graph graph;
  const Dimension rows{"rows", 32}, cols{"cols", 32}, channels{"channels", 64};
  const Tensor x = graph.input("x", {{"batch", 64}, rows, cols, channels}), dy = graph.input("dy", x.shape());
  const Tensor scale = graph.input("scale", {channels});
  const std::vector<Window> halves{window_over(rows, {.size = 2, .stride = 2}),
                                   window_over(cols, {.size = 2, .stride = 2})};
  const Tensor y = window_max(x, halves);
  report(filter, "max_pool 64x32x32x64", y.operation());
  report(filter, "max_pool gradient 64x32x32x64", gradients({y}, {x})[0].operation());
  report(filter, "moments 64x32x32x64", moments(x, dy, {channels}).sum.operation());
  report(filter, "affine 64x32x32x64", affine(x, scale, scale).operation());
  report(filter, "affine of two 64x32x32x64", affine(x, scale, dy, scale, scale).operation());
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  using namespace mtf;
  const std::string filter = argc > 1 ? argv[1] : "";
  for (int64_t batch : {25, 200, 2000}) dense(filter, batch, 784, 1024);
  dense(filter, 200, 784, 128);
  for (int64_t batch : {25, 200, 2000}) dense(filter, batch, 1024, 10);
  dense(filter, 2048, 256, 8192);
  dense(filter, 200, 784, 1024, DType::kBFloat16);
  for (const int64_t rows : {1, 8, 32}) {
    for (const auto& [in, out] : {std::pair(256, 256), {256, 1024}, {1024, 256}, {256, 8192}})
      inferred(filter, rows, in, out);
  }
  for (const auto& [in, out] : {std::pair(768, 768), {768, 3072}, {3072, 768}, {768, 50304}})
    inferred(filter, 1, in, out);
  inferred(filter, 1, 768, 50304, true);
  inferred(filter, 32, 256, 8192, true);
  inferred(filter, 80, 128, 4000, true);
  attention(filter);
  for (const bool causal : {false, true}) {
    fused_attention(filter, 16, 4, 32, 32, causal);
    fused_attention(filter, 8, 8, 128, 64, causal);
    fused_attention(filter, 2, 8, 512, 64, causal);
  }
  fused(filter);
  images(filter);
}
