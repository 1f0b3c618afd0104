// Cases of attention with each kind of mask, bias, dropout and head. Every query sees something, since the
// term added to a hidden logit would swallow the steps of central differences.
#include "engine/ops/attention.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/cast.h"
#include "tests/support/operation_cases.h"

namespace mtf::testing {
namespace {

const Dimension batch{"batch", 2}, length{"length", 4}, memory{"memory_length", 6}, heads{"heads", 2},
    query_heads{"query_heads", 2}, d_kv{"d_kv", 4}, d_value{"d_value", 2}, buckets{"buckets", 8};
constexpr const char* kNames = "attention attention_gradient";

const CaseRegistration heads_of_their_own(kNames, [](CaseBuilder& c) {
  return Tensors{attention({.q = c.input("q", {batch, length, heads, d_kv}),
                            .k = c.input("k", {batch, memory, heads, d_kv}),
                            .v = c.input("v", {batch, memory, heads, d_kv})})};
});

const CaseRegistration causal_with_segments_and_bias(kNames, [](CaseBuilder& c) {
  AttentionInputs in{
      .q = c.input("q", {batch, heads, length, d_kv}), .k = c.input("k", {batch, memory, d_kv}), .v = {}};
  in.v = in.k;
  in.query_segment = c.values("query_segment", {batch, length}, DType::kInt32, {1, 1, 2, 2, 3, 3, 3, 3});
  in.memory_segment =
      c.values("memory_segment", {batch, memory}, DType::kInt32, {1, 1, 2, 2, 2, 0, 3, 3, 3, 3, 0, 0});
  in.bias_table = c.input("table", {heads, buckets});
  in.noise = cast(c.ids("noise", {batch, heads, memory}, 0, 3), c.floating);  // not differentiated
  return Tensors{
      attention(in, {.causal = true, .extra_logit = 0.5, .bidirectional = false, .max_distance = 16})};
});

const CaseRegistration grouped_in_a_window(kNames, [](CaseBuilder& c) {
  AttentionInputs in{.q = c.input("q", {d_kv, batch, query_heads, heads, length}),
                     .k = c.input("k", {d_kv, heads, memory, batch}),
                     .v = c.input("v", {batch, d_value, memory, heads})};
  in.query_position = c.values("query_position", {length}, DType::kInt32, {0, 3, 1, 2});
  in.memory_position =
      c.values("memory_position", {memory, batch}, DType::kInt32, {0, 0, 1, 1, 2, 2, 3, 3, 4, 1, 5, 2});
  in.bias_table = c.input("table", {query_heads, buckets});
  return Tensors{
      attention(in, {.value = "d_value", .min_relative = -1, .max_relative = 2, .max_distance = 8})};
});

const CaseRegistration within_a_sequence(kNames, [](CaseBuilder& c) {
  const Dimension row{"length", 8};
  AttentionInputs in{.q = c.input("q", {batch, row, heads, d_kv}),
                     .k = c.input("k", {batch, row, heads, d_kv}),
                     .v = c.input("v", {batch, heads, row, d_kv})};
  in.noise = cast(c.ids("noise", {batch, heads, row}, 0, 3), c.floating);  // not differentiated
  return Tensors{attention(in, {.memory_length = "length", .min_relative = -2, .max_relative = 1})};
});

const CaseRegistration one_query(kNames, [](CaseBuilder& c) {
  AttentionInputs in{.q = c.input("q", {batch, heads, d_kv}),
                     .k = c.input("k", {batch, heads, memory, d_kv}),
                     .v = c.input("v", {batch, heads, memory, d_kv})};
  in.query_priority = in.query_position = c.values("position", {batch}, DType::kInt32, {3, 1});
  in.bias_table = c.input("table", {heads, buckets});
  return Tensors{attention(in, {.bidirectional = false, .max_distance = 8})};
});

const CaseRegistration copies_with_a_shared_prefix(kNames, [](CaseBuilder& c) {
  const Dimension copies{"copies", 2}, entries{"memory_length", 20};
  const Shape shape{batch, copies, heads, entries, d_kv}, once{batch, heads, entries, d_kv};
  AttentionInputs in{.q = c.input("q", {batch, copies, heads, d_kv}),
                     .k = broadcast(c.input("k", once), shape),
                     .v = broadcast(c.input("v", once), shape)};
  in.query_priority = c.values("position", {batch}, DType::kInt32, {18, 1});
  in.shared_prefix = c.values("shared_prefix", {batch}, DType::kInt32, {17, 30});
  return Tensors{attention(in, {.copies = "copies"})};
});

const CaseRegistration copies_within_a_sequence(kNames, [](CaseBuilder& c) {
  const Dimension copies{"copies", 2}, row{"length", 8};
  const Shape shape{batch, copies, row, d_kv}, once{batch, row, d_kv};
  AttentionInputs in{.q = c.input("q", shape),
                     .k = broadcast(c.input("k", once), shape),
                     .v = broadcast(c.input("v", once), shape)};
  in.shared_prefix = c.values("shared_prefix", {batch}, DType::kInt32, {8, 3});
  return Tensors{
      attention(in, {.memory_length = "length", .causal = true, .min_relative = -2, .copies = "copies"})};
});

const CaseRegistration with_its_log_sum(kNames, [](CaseBuilder& c) {
  AttentionInputs in{.q = c.input("q", {batch, length, heads, d_kv}),
                     .k = c.input("k", {batch, memory, heads, d_kv}),
                     .v = c.input("v", {batch, memory, heads, d_value})};
  in.query_segment = c.values("query_segment", {batch, length}, DType::kInt32, {1, 1, 2, 2, 3, 3, 3, 3});
  in.memory_segment =
      c.values("memory_segment", {batch, memory}, DType::kInt32, {1, 1, 2, 2, 2, 0, 3, 3, 3, 3, 0, 0});
  in.bias_table = c.input("table", {heads, buckets});
  in.noise = cast(c.ids("noise", {batch, heads, memory}, 0, 3), c.floating);  // not differentiated
  const auto [result, log_sum] = attention_with_log_sum(in, {.value = "d_value", .max_distance = 8});
  return Tensors{result, log_sum};
});

const CaseRegistration under_a_soft_cap(kNames, [](CaseBuilder& c) {
  AttentionInputs in{.q = c.input("q", {batch, length, heads, query_heads, d_kv}),
                     .k = c.input("k", {batch, memory, heads, d_kv}),
                     .v = c.input("v", {batch, memory, heads, d_value})};
  in.query_segment = c.values("query_segment", {batch, length}, DType::kInt32, {1, 1, 2, 2, 3, 3, 3, 3});
  in.memory_segment =
      c.values("memory_segment", {batch, memory}, DType::kInt32, {1, 1, 2, 2, 2, 0, 3, 3, 3, 3, 0, 0});
  in.bias_table = c.input("table", {heads, query_heads, buckets});
  in.noise = cast(c.ids("noise", {batch, heads, memory}, 0, 3), c.floating);  // not differentiated
  const auto [result, log_sum] = attention_with_log_sum(
      in, {.value = "d_value", .extra_logit = 0.5, .soft_cap = 0.7, .max_distance = 8});
  return Tensors{result, log_sum};
});

const CaseRegistration within_a_sequence_under_a_soft_cap(kNames, [](CaseBuilder& c) {
  const Dimension row{"length", 8};
  return Tensors{attention({.q = c.input("q", {batch, row, heads, d_kv}),
                            .k = c.input("k", {batch, row, heads, d_kv}),
                            .v = c.input("v", {batch, heads, row, d_kv})},
                           {.memory_length = "length", .causal = true, .min_relative = -3, .soft_cap = 0.7})};
});

const CaseRegistration log_sum_alone(kNames, [](CaseBuilder& c) {
  const Dimension row{"length", 8};
  AttentionInputs in{.q = c.input("q", {batch, row, heads, query_heads, d_kv}),
                     .k = c.input("k", {batch, row, heads, d_kv}),
                     .v = c.input("v", {batch, heads, row, d_kv})};
  return Tensors{attention_with_log_sum(
                     in, {.memory_length = "length", .causal = true, .min_relative = -2, .extra_logit = 0.5})
                     .log_sum};
});

const CaseRegistration relative_bucket_case("relative_bucket", [](CaseBuilder& c) {
  return Tensors{relative_bucket(c.ids("relative", {batch, memory}, -20, 20), {})};
});

}  // namespace
}  // namespace mtf::testing
