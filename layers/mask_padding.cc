#include "layers/mask_padding.h"

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "layers/registry.h"

namespace mtf {

void set_segments(Sequence& sequence, const Tensor& segment) {
  sequence.segment = segment;
  sequence.mask = cast(not_equal(segment, segment.graph().constant(0, segment.dtype())), DType::kFloat32);
}

LayerTensor mask_padding(Context& context, const LayerTensor& x) {
  const Sequence* sequence = context.find_sequence();
  if (sequence == nullptr || !sequence->mask) return x;
  return LayerTensor(multiply(x, cast(sequence->mask, x.dtype()), x.shape())).made_from(x);
}

namespace {

struct NoOptions {};
void describe(config::Visitor&, NoOptions&) {}

class MaskPaddingLayer final : public Layer {
 public:
  using Options = NoOptions;
  explicit MaskPaddingLayer(const Options&) {}
  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    context.sequence("mask_padding");
    return mask_padding(context, x);
  }
};

/// Within `sublayers.per_layer`: calls the layer of the block that is in hand.
class CallLayer final : public Layer {
 public:
  using Options = NoOptions;
  explicit CallLayer(const Options&) {}
  bool is_transparent(bool) const override { return true; }
  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Sequence& sequence = context.sequence("call_layer");
    if (sequence.layer == nullptr) {
      throw Error(ErrorKind::kConfig, "call_layer has no layer to call",
                  "it belongs into `sublayers.per_layer`, which is applied to each layer of the block");
    }
    return (*sequence.layer)(mask_padding(context, x));
  }
};

const LayerRegistration<MaskPaddingLayer> mask_registration("mask_padding",
                                                            "y = x, zero at positions of padding");
const LayerRegistration<CallLayer> call_registration(
    "call_layer", "in `sublayers.per_layer`: y = layer(mask_padding(x)), the layer of the block in hand");

}  // namespace
}  // namespace mtf
