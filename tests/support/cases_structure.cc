// Cases of the operations that move, select and draw elements.
#include "engine/ops/cast.h"
#include "engine/ops/concat.h"
#include "engine/ops/cumsum.h"
#include "engine/ops/dynamic_update_slice.h"
#include "engine/ops/halo.h"
#include "engine/ops/indexing.h"
#include "engine/ops/pool_1d.h"
#include "engine/ops/random.h"
#include "engine/ops/shift.h"
#include "engine/ops/slice.h"
#include "engine/ops/stack.h"
#include "engine/ops/top_k.h"
#include "engine/ops/update_kv_cache.h"
#include "tests/support/operation_cases.h"

namespace mtf::testing {
namespace {

const Dimension batch{"batch", 4}, length{"length", 6}, d{"d", 4}, vocab{"vocab", 12}, k{"k", 2};

const CaseRegistration concat_case("concat split", [](CaseBuilder& c) {
  return Tensors{
      concat({c.input("x", {batch, length, d}), c.input("y", {batch, {"length", 3}, d})}, "length")};
});

const CaseRegistration concat_reordered_case("concat", [](CaseBuilder& c) {
  return Tensors{
      concat({c.input("x", {batch, length, d}), c.input("y", {d, {"length", 3}, batch})}, "length")};
});

const CaseRegistration split_case("split concat", [](CaseBuilder& c) {
  const Tensors parts = split(c.input("x", {batch, length, d}), "length", {1, 3, 2});
  return Tensors{parts[0], parts[2]};
});

const CaseRegistration stack_case("stack unstack", [](CaseBuilder& c) {
  return Tensors{stack({c.input("x", {batch, d}), c.input("y", {batch, d})}, "pair", 1)};
});

const CaseRegistration unstack_case("unstack stack", [](CaseBuilder& c) {
  const Tensors entries = unstack(c.input("x", {batch, length, d}), "length");
  return Tensors{entries[0], entries[3]};
});

const CaseRegistration slice_case("slice pad", [](CaseBuilder& c) {
  return Tensors{slice(c.input("x", {batch, length, d}), "length", 1, 3)};
});

const CaseRegistration pad_case("pad slice", [](CaseBuilder& c) {
  return Tensors{pad(c.input("x", {batch, length, d}), "length", 2, 1)};
});

const CaseRegistration one_hot_case("one_hot", [](CaseBuilder& c) {
  return Tensors{one_hot(c.ids("ids", {batch, length}, -2, 14), vocab, 2, -1, c.floating)};
});

const CaseRegistration range_case("range", [](CaseBuilder& c) {
  return Tensors{range(c.graph, vocab, c.floating), range(c.graph, length)};
});

const CaseRegistration gather_case("gather gather_gradient", [](CaseBuilder& c) {
  return Tensors{gather(c.input("table", {vocab, d}), c.ids("ids", {batch, length}, -2, 14), "vocab")};
});

const CaseRegistration gather_per_example_case("gather gather_gradient", [](CaseBuilder& c) {
  return Tensors{gather(c.input("table", {batch, d, vocab, {"heads", 2}}),
                        c.ids("ids", {length, batch}, 0, 12), "vocab", {batch, {"heads", 2}, length, d})};
});

const CaseRegistration gather_one_case("gather gather_gradient", [](CaseBuilder& c) {
  return Tensors{gather(c.input("table", {batch, vocab}), 3, "vocab")};
});

const CaseRegistration cumsum_case("cumsum", [](CaseBuilder& c) {
  const Tensor x = c.input("x", {batch, length, d});
  return Tensors{cumsum(x, "length"), cumsum(x, "d", {.exclusive = true}),
                 cumsum(x, "batch", {.reverse = true}),
                 cumsum(x, "length", {.exclusive = true, .reverse = true})};
});

const CaseRegistration shift_case("shift", [](CaseBuilder& c) {
  const Tensor x = c.input("x", {batch, length, d});
  return Tensors{shift(x, 2, "length", false), shift(x, -1, "length", true), shift(x, -7, "length", false),
                 shift(x, 9, "length", true), shift(x, -3, "d", false)};
});

const CaseRegistration dynamic_shift_case("dynamic_shift", [](CaseBuilder& c) {
  const Tensor x = c.input("x", {batch, length, d});
  const Tensor offset = c.ids("offset", {batch}, -7, 8);
  return Tensors{dynamic_shift(x, offset, "length", false), dynamic_shift(x, offset, "length", true),
                 dynamic_shift(x, c.ids("offset_of_d", {d}, -7, 8), "length", true)};
});

const CaseRegistration dynamic_update_slice_case("dynamic_update_slice", [](CaseBuilder& c) {
  const Tensor x = c.input("x", {batch, length, d});
  const Tensor entry = c.input("entry", {d, batch});
  return Tensors{
      dynamic_update_slice(x, entry, c.ids("of_batch", {batch}, 0, x.shape()[1].size), "length"),
      dynamic_update_slice(x, entry, c.ids("of_both", {d, batch}, -1, x.shape()[1].size + 1), "length"),
      dynamic_update_slice(x, c.input("column", {batch, length}), c.ids("one", {}, 0, x.shape()[2].size),
                           "d")};
});

const CaseRegistration update_kv_cache_case("update_kv_cache", [](CaseBuilder& c) {
  const Dimension beam{"beam", 3};
  const auto values = [&](const char* name, const Shape& shape) {
    return cast(c.ids(name, shape, 0, 100), c.floating);  // not differentiated
  };
  const Tensor position = c.ids("position", {batch}, 0, 6), parent = c.ids("parent", {batch, beam}, 0, 3),
               common = c.ids("common", {batch, beam}, 0, 4);
  return Tensors{update_kv_cache(values("cache", {batch, beam, length, d}), values("entry", {beam, batch, d}),
                                 position, parent, common, "beam", "length"),
                 update_kv_cache(values("apart", {d, length, batch, beam}), values("other", {batch, d, beam}),
                                 position, parent, common, "beam", "length")};
});

const CaseRegistration halo_case("shift slice concat", [](CaseBuilder& c) {
  const Tensor x = c.input("x", {batch, {"blocks", 4}, {"w", 3}});
  return Tensors{halo_exchange(x, "blocks", "w", 1), halo_exchange(x, "blocks", "w", 4, true),
                 left_halo_exchange(x, "blocks", "w", 2)};
});

const CaseRegistration pool_case("reshape reduce_sum", [](CaseBuilder& c) {
  const Tensor x = c.input("x", {batch, length, d});
  return Tensors{pool_tensor_1d(x, "length", Pooling::kMean, 3),
                 pool_tensor_1d(x, "length", Pooling::kMax, 3), pool_tensor_1d(x, "d", Pooling::kMin),
                 stride_tensor_1d(x, "length", 3)};
});

const CaseRegistration top_k_case("top_k top_k_gradient", [](CaseBuilder& c) {
  const Tensor x = c.input("x", {batch, vocab, d});
  const TopKResult top = top_k(x, "vocab", k);
  return Tensors{top.values, top.indices, top_1(x, "d").values};
});

const CaseRegistration nth_largest_case("top_k", [](CaseBuilder& c) {
  const Tensor x = c.input("x", {batch, vocab});
  return Tensors{nth_largest_element(x, 2, "vocab"), nth_smallest_element(x, 1, "vocab"), argmax(x, "vocab")};
});

const CaseRegistration random_case("random_uniform random_normal random_gumbel", [](CaseBuilder& c) {
  return Tensors{random_uniform(c.graph, {batch, length, d}, -1, 1, c.floating),
                 random_normal(c.graph, {batch, length, d}, 0, 2, c.floating),
                 random_gumbel(c.graph, {batch, length, d}, 0, 1, c.floating)};
});

const CaseRegistration dropout_case("dropout", [](CaseBuilder& c) {
  const Tensor x = c.input("x", {batch, length, d});
  return Tensors{dropout(x, 0.4), dropout(x, 0.4, {batch, d}), dropout(x, 0.4, {d, batch}),
                 dropout(x, 0.4, {batch})};
});

const CaseRegistration sample_case("random_gumbel top_k", [](CaseBuilder& c) {
  return Tensors{sample_with_temperature(c.input("logits", {batch, vocab}), "vocab", 0.7)};
});

}  // namespace
}  // namespace mtf::testing
