// Cases of contractions, softmax, losses, normalization and optimizer updates.
#include "engine/ops/adafactor.h"
#include "engine/ops/cast.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/eigenbasis.h"
#include "engine/ops/einsum.h"
#include "engine/ops/normalization.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/reshape.h"
#include "engine/ops/slot_code.h"
#include "engine/ops/softmax.h"
#include "engine/ops/stochastic_cast.h"
#include "engine/ops/unary.h"
#include "tests/support/operation_cases.h"

namespace mtf::testing {
namespace {

const Dimension batch{"batch", 4}, length{"length", 6}, d{"d", 4}, hidden{"hidden", 8}, vocab{"vocab", 12},
    stack{"stack", 2};

/// Stops gradients: updates are not differentiated.
Tensors stopped(Tensors outputs) {
  for (Tensor& t : outputs) {
    if (is_floating(t.dtype())) t = stop_gradient(t);
  }
  return outputs;
}

const CaseRegistration matrix_product("einsum", [](CaseBuilder& c) {
  return Tensors{einsum({c.input("x", {batch, d}), c.input("w", {d, hidden})}, {batch, hidden})};
});

const CaseRegistration batched_product("einsum", [](CaseBuilder& c) {
  return Tensors{
      einsum({c.input("q", {batch, length, d}), c.input("k", {batch, hidden, d})}, {batch, hidden, length})};
});

const CaseRegistration product_with_two_summed("einsum", [](CaseBuilder& c) {
  return Tensors{
      einsum({c.input("x", {length, batch, d}), c.input("w", {d, hidden, length})}, {hidden, batch})};
});

const CaseRegistration sum_of_products("einsum", [](CaseBuilder& c) {
  return Tensors{einsum({c.input("x", {length, hidden}), c.input("y", {length, hidden})}, {hidden}),
                 einsum({c.input("u", {length, hidden}), c.input("v", {length, hidden})}, Shape{})};
});

const CaseRegistration three_factors("einsum", [](CaseBuilder& c) {
  return Tensors{einsum({c.input("x", {batch, d}), c.input("y", {d, hidden}), c.input("z", {hidden, length})},
                        {length, batch})};
});

const CaseRegistration logsumexp_case("logsumexp logsumexp_gradient", [](CaseBuilder& c) {
  const Tensor x = c.input("x", {batch, length, vocab});
  return Tensors{reduce_logsumexp(x, "vocab"), reduce_logsumexp(x, "length", 0.5)};
});

const CaseRegistration softmax_case("softmax softmax_gradient", [](CaseBuilder& c) {
  const Tensor x = c.input("x", {batch, length, vocab});
  return Tensors{softmax(x, "vocab"), softmax(x, "length", -0.5)};
});

const CaseRegistration log_softmax_case("log_softmax log_softmax_gradient", [](CaseBuilder& c) {
  const Tensor x = c.input("x", {batch, length, vocab});
  return Tensors{log_softmax(x, "vocab", 0.25), log_softmax(x, "batch")};
});

const CaseRegistration cross_entropy_of_ids(
    "softmax_cross_entropy softmax_cross_entropy_gradient cross_entropy_sums", [](CaseBuilder& c) {
      const CrossEntropy e = softmax_cross_entropy(c.input("logits", {batch, length, vocab}),
                                                   c.ids("targets", {length, batch}, -1, 14), "vocab",
                                                   {.z_loss = 0.1, .label_smoothing = 0.2});
      return Tensors{e.loss, e.log_z};
    });

const CaseRegistration cross_entropy_of_values(
    "softmax_cross_entropy softmax_cross_entropy_gradient cross_entropy_sums", [](CaseBuilder& c) {
      const CrossEntropy e =
          softmax_cross_entropy(c.input("logits", {batch, vocab, length}),
                                c.input("targets", {length, batch, vocab}, 0, 1), "vocab", {.z_loss = 0.1});
      return Tensors{e.loss, e.log_z};
    });

const CaseRegistration sigmoid_cross_entropy_case("relu softplus", [](CaseBuilder& c) {
  return Tensors{
      sigmoid_cross_entropy(c.input("logits", {batch, vocab}), c.input("targets", {vocab, batch}, 0, 1))};
});

const CaseRegistration layer_norm_case(
    "layer_norm layer_norm_gradient layer_norm_parameter_gradient", [](CaseBuilder& c) {
      return Tensors{layer_norm(c.input("x", {batch, length, hidden}), "hidden",
                                c.input("scale", {hidden}, 0.5, 1.5), c.input("bias", {hidden}))};
    });

const CaseRegistration layer_norm_of_first(
    "layer_norm layer_norm_gradient layer_norm_parameter_gradient", [](CaseBuilder& c) {
      return Tensors{layer_norm(c.input("x", {hidden, batch}), "hidden", c.input("scale", {hidden}, 0.5, 1.5),
                                c.input("bias", {hidden}), 1e-2)};
    });

const CaseRegistration rms_norm_case("rms_norm rms_norm_gradient rms_norm_parameter_gradient",
                                     [](CaseBuilder& c) {
                                       return Tensors{rms_norm(c.input("x", {batch, hidden, length}),
                                                               "hidden",
                                                               c.input("scale", {hidden}, 0.5, 1.5))};
                                     });

const CaseRegistration sgd_case("stop_gradient sgd_update", [](CaseBuilder& c) {
  return stopped(
      {sgd_update(c.input("w", {d, hidden}), c.input("g", {d, hidden}), c.input("rate", {}, 0.1, 0.2))});
});

const CaseRegistration momentum_case("stop_gradient momentum_update", [](CaseBuilder& c) {
  const MomentumUpdate u = momentum_update(c.input("w", {d, hidden}), c.input("g", {d, hidden}),
                                           c.input("v", {d, hidden}), c.input("rate", {}, 0.1, 0.2), 0.9);
  return stopped({u.weight, u.velocity});
});

/// Slots of bfloat16, where the weight is not wider than float32.
Tensor narrow_slot(CaseBuilder& c, const std::string& name, double low = -1) {
  const Tensor slot = c.input(name, {d, hidden}, low, 1);
  return c.floating == DType::kFloat64 ? slot : cast(slot, DType::kBFloat16);
}

/// The outputs in the type of the inputs.
Tensors in_type_of_inputs(CaseBuilder& c, Tensors outputs) {
  for (Tensor& t : outputs) t = cast(t, c.floating);
  return stopped(outputs);
}

const CaseRegistration rounded_momentum_case("stop_gradient momentum_update", [](CaseBuilder& c) {
  const MomentumUpdate u = momentum_update(c.input("w", {d, hidden}), c.input("g", {d, hidden}),
                                           narrow_slot(c, "v"), c.input("rate", {}, 0.1, 0.2), 0.9);
  return in_type_of_inputs(c, {u.weight, u.velocity});
});

const CaseRegistration rounded_adam_case("stop_gradient adam_update", [](CaseBuilder& c) {
  const AdamUpdate u =
      adam_update(c.input("w", {d, hidden}), c.input("g", {d, hidden}), narrow_slot(c, "m"),
                  narrow_slot(c, "v", 0.1), c.input("rate", {}, 0.1, 0.2), {.weight_decay = 0.01});
  return in_type_of_inputs(c, {u.weight, u.first_moment, u.second_moment});
});

const CaseRegistration stochastic_cast_case("stop_gradient stochastic_cast", [](CaseBuilder& c) {
  const Tensor x = cast(c.input("x", {batch, length, d}), DType::kFloat32);
  return in_type_of_inputs(c, {stochastic_cast(x)});
});

const CaseRegistration slot_code_case("stop_gradient encode_slot decode_slot", [](CaseBuilder& c) {
  const Tensor x = cast(c.input("x", {batch, length, d}), DType::kFloat32),
               largest = largest_of_blocks(x, DType::kInt8);
  return in_type_of_inputs(c, {decode_slot(encode_slot(x, largest, DType::kInt8), largest)});
});

const CaseRegistration adam_case("stop_gradient adam_update", [](CaseBuilder& c) {
  const AdamUpdate u =
      adam_update(c.input("w", {d, hidden}), c.input("g", {d, hidden}), c.input("m", {d, hidden}),
                  c.input("v", {d, hidden}, 0.1, 1), c.input("rate", {}, 0.1, 0.2), {.weight_decay = 0.01},
                  {c.input("first", {}, 1, 2), c.input("second", {}, 1, 2)});
  return stopped({u.weight, u.first_moment, u.second_moment});
});

Tensors adafactor_case(CaseBuilder& c, const AdafactorOptions& options) {
  const Shape shape{stack, d, hidden};
  Tensors slots;
  for (const auto& [suffix, slot] : adafactor_slots(shape, options))
    slots.push_back(c.input(suffix, slot, 0.1, 1));
  const AdafactorUpdate u =
      adafactor_update(c.input("w", shape), c.input("g", shape), slots, c.input("rate", {}, 0.1, 0.2),
                       c.input("decay", {}, 0.5, 0.9), options);
  Tensors outputs = u.slots;
  outputs.push_back(u.weight);
  return stopped(outputs);
}

const CaseRegistration factored_adafactor(
    "stop_gradient adafactor_sums adafactor_update_squares adafactor_apply", [](CaseBuilder& c) {
      return adafactor_case(c, {.beta1 = 0.9,
                                .clipping_threshold = 0.5,
                                .min_dim_size_to_factor = 2,
                                .stacked_dim_names = {"stack"}});
    });

const CaseRegistration unfactored_adafactor("stop_gradient adafactor_second_moment", [](CaseBuilder& c) {
  return adafactor_case(c, {.clipping_threshold = 0.5});
});

/// Symmetric matrices with distinct eigenvalues, one for each entry of `stack`.
Tensor gram_matrices(CaseBuilder& c) {
  const Tensor x = c.input("x", {stack, d, hidden}, -2, 2);
  return einsum({x, rename(x, "d", "vectors")}, {stack, d, {"vectors", d.size}});
}

const CaseRegistration eigenvectors_case("stop_gradient eigenbasis", [](CaseBuilder& c) {
  const Tensor x = gram_matrices(c);
  const Tensor nothing =
      c.values("nothing", x.shape(), c.floating, Values(static_cast<size_t>(x.shape().size())));
  return stopped({eigenbasis(x, nothing, c.input("due", {}, 0, 1), "d", "vectors")});
});

const CaseRegistration orthogonal_iteration_case("stop_gradient eigenbasis", [](CaseBuilder& c) {
  const Tensor x = gram_matrices(c);
  return stopped({eigenbasis(x, c.input("basis", x.shape()), c.input("due", {}, 0.5, 1), "d", "vectors")});
});

const CaseRegistration kept_basis_case("stop_gradient eigenbasis", [](CaseBuilder& c) {
  const Tensor x = gram_matrices(c);
  return stopped({eigenbasis(x, c.input("basis", x.shape()), c.input("due", {}, -1, 0), "d", "vectors")});
});

const CaseRegistration all_finite_case("stop_gradient all_finite", [](CaseBuilder& c) {
  return Tensors{all_finite({c.input("x", {}), c.input("y", {batch, d})})};
});

}  // namespace
}  // namespace mtf::testing
