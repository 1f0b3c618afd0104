// Cases of the operations that move tokens to experts and back.
#include "engine/ops/cast.h"
#include "engine/ops/expert_product.h"
#include "engine/ops/routing.h"
#include "tests/support/operation_cases.h"

namespace mtf::testing {
namespace {

const Dimension batch{"batch", 4}, group{"length", 6}, choice{"choice", 2}, experts{"experts", 4}, d{"d", 4};

/// Two choices of each token; some overflow, some ids are no expert.
Slots slots_of_case(CaseBuilder& c) {
  return assign_slots(c.ids("expert", {batch, group, choice}, -1, 5), {},
                      {.experts = 4, .block = experts, .capacity = {"capacity", 3}});
}

const CaseRegistration assign_case("assign_slots", [](CaseBuilder& c) {
  const Tensor expert = c.ids("expert", {batch, group, choice}, -1, 5);
  const Slots in_order =
      assign_slots(expert, {}, {.experts = 4, .block = experts, .capacity = {"capacity", 3}});
  const Slots once = assign_slots(
      expert, {}, {.experts = 4, .block = experts, .capacity = {"capacity", 2}, .one_per_token = true});
  const Slots sorted =
      assign_slots(expert, {}, {.experts = 4, .block = {"blocks", 2}, .capacity = {"capacity", 12}});
  return Tensors{in_order.slot, in_order.taker, in_order.offsets, once.slot,     once.taker,
                 once.offsets,  sorted.slot,    sorted.taker,     sorted.offsets};
});

const CaseRegistration assign_by_priority_case("assign_slots", [](CaseBuilder& c) {
  Values priorities;
  for (int64_t i = 0; i < batch.size * group.size * choice.size; ++i)
    priorities.push_back(static_cast<double>(i * 7 % 11));
  const Slots slots = assign_slots(c.ids("expert", {batch, group, choice}, -1, 5),
                                   c.values("priority", {batch, group, choice}, DType::kFloat32, priorities),
                                   {.experts = 4, .block = experts, .capacity = {"capacity", 2}});
  return Tensors{slots.slot, slots.taker, slots.offsets};
});

const CaseRegistration dispatch_case("dispatch combine choice_products", [](CaseBuilder& c) {
  return Tensors{dispatch(c.input("x", {batch, group, d}), slots_of_case(c))};
});

DType weight_type(const CaseBuilder& c) {
  return c.floating == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

const CaseRegistration combine_case("combine dispatch choice_products", [](CaseBuilder& c) {
  const Slots slots = slots_of_case(c);
  const Tensor weights = cast(c.input("weights", {batch, group, choice}), weight_type(c));
  const Tensor table = c.input("table", {experts, batch, {"capacity", 3}, d});
  return Tensors{combine(table, slots, weights), dispatch(c.input("x", {batch, group, d}), slots, weights)};
});

const CaseRegistration products_case("choice_products combine dispatch", [](CaseBuilder& c) {
  return Tensors{choice_products(c.input("y", {batch, group, d}),
                                 c.input("table", {experts, batch, {"capacity", 3}, d}), slots_of_case(c))};
});

/// Offsets of two blocks of two experts in four groups; a block has at most 12 rows of six tokens.
Tensor offsets_of_case(CaseBuilder& c) {
  return assign_slots(c.ids("expert", {batch, group, choice}, -1, 5), {},
                      {.experts = 4, .block = {"experts", 2}, .capacity = {"capacity", 12}})
      .offsets;
}

const CaseRegistration expert_product_case("expert_product expert_outer_product", [](CaseBuilder& c) {
  const Tensor x = c.input("x", {{"experts", 2}, batch, {"capacity", 12}, d});
  return Tensors{expert_product(x, c.input("w", {experts, d, {"hidden", 6}}), offsets_of_case(c))};
});

const CaseRegistration expert_back_case("expert_product expert_outer_product", [](CaseBuilder& c) {
  const Tensor x = c.input("x", {{"experts", 2}, batch, {"capacity", 12}, {"hidden", 6}});
  return Tensors{expert_product(x, c.input("w", {experts, d, {"hidden", 6}}), offsets_of_case(c))};
});

const CaseRegistration outer_product_case("expert_outer_product expert_product", [](CaseBuilder& c) {
  const Shape rows{{"experts", 2}, batch, {"capacity", 12}};
  return Tensors{expert_outer_product(c.input("x", rows + d), c.input("y", rows + Dimension{"hidden", 6}),
                                      offsets_of_case(c), experts)};
});

}  // namespace
}  // namespace mtf::testing
