#include "layers/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/einsum.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reshape.h"
#include "engine/ops/unary.h"

namespace mtf {

config::EnumNames enum_names(AttentionKernel) {
  return {{"q", AttentionKernel::kQueries},
          {"k", AttentionKernel::kKeys},
          {"v", AttentionKernel::kValues},
          {"o", AttentionKernel::kOutput}};
}

void describe(config::Visitor& visit, AttentionLora& options) {
  describe(visit, static_cast<LoraOptions&>(options));
  visit("kernels", options.kernels, "those that get an update");
  visit.check([&options](const config::Report& report) {
    const std::set<AttentionKernel> kernels(options.kernels.begin(), options.kernels.end());
    if (kernels.empty() || kernels.size() < options.kernels.size())
      report.error("kernels", kernels.empty() ? "no kernel gets an update" : "a kernel is named twice",
                   "some of q, k, v, o, each once; or `lora: null`");
  });
}

void describe(config::Visitor& visit, HeadOptions& options) {
  visit("num_heads", options.num_heads, "heads of the queries", config::positive);
  visit("num_memory_heads", options.num_memory_heads,
        "heads of keys and values: 0 as many as the queries, 1 multi-query, more: grouped query",
        config::non_negative);
  visit("key_value_size", options.key_value_size, "size of a head, `d_kv`", config::positive);
  visit("shared_kv", options.shared_kv, "the keys are the values too");
  visit("combine_dims", options.combine_dims,
        "heads and d_kv are one dimension of q, k, v and o; false: q, k, v [d_model, heads, d_kv] and o "
        "[heads, "
        "d_kv, d_model], with the same initial values, which Adafactor factors otherwise");
  visit("dropout", options.dropout, "rate for the attention weights, shared along `length`",
        config::probability, config::reported_on_resume);
  visit("fold_scaling_into_initializer", options.fold_scaling_into_initializer,
        "initial queries are smaller by sqrt(d_kv); false: queries are divided by it in each step");
  visit("scaling_size", options.scaling_size,
        "logits are smaller by the root of this number (query_pre_attn_scalar of Gemma 2); null: of "
        "key_value_size",
        config::positive);
  visit("extra_logit", options.extra_logit, "a logit of a position that has no value");
  describe(visit, static_cast<AttentionMixingOptions&>(options));
  visit("bias", options.bias, "adds biases q_bias, k_bias, v_bias, o_bias; qkv: the first three");
  visit("kernel_initializer", options.kernel_initializer,
        "initial values of q, k, v and o (default: normal, with deviations d_model^-1/2, and (heads "
        "d_kv)^-1/2 of o)");
  visit("bias_initializer", options.bias_initializer, "initial values of the biases");
  visit("lora", options.lora, kLoraHelp);
  visit.check([&options](const config::Report& report) {
    if (options.num_memory_heads > 0 && options.num_heads % options.num_memory_heads != 0) {
      report.error(
          "num_memory_heads",
          fmt::format("{} heads cannot share {} memory heads", options.num_heads, options.num_memory_heads),
          "a divisor of `num_heads`");
    }
    if (options.dropout >= 1) report.error("dropout", "a dropout rate of 1 leaves nothing", "a rate below 1");
    if (options.shared_kv &&
        (options.qk_norm != QkNorm::kNone || options.convolution_width > 0 || options.prefix_length > 0))
      report.error("shared_kv",
                   "keys that are the values too cannot have a norm, a convolution or a prefix of their own",
                   "`shared_kv: false`");
  });
}

AttentionProjections::AttentionProjections(Context& context, const HeadOptions& options,
                                           const Dimension& model)
    : context_(context), options_(options), model_(model), key_{"d_kv", options.key_value_size} {
  const int64_t heads = options.num_heads, memory = options.num_memory_heads;
  if (heads == 1) return;
  if (memory == 0) {
    query_heads_ = memory_heads_ = Shape{{"heads", heads}};
  } else if (memory == 1) {
    query_heads_ = Shape{{"heads", heads}};
  } else {
    query_heads_ = Shape{{"heads", memory}, {"query_heads", heads / memory}};
    memory_heads_ = Shape{{"heads", memory}};
  }
}

/// One dimension has the name of the first.
Shape AttentionProjections::in_variable(const Shape& apart) const {
  return options_.combine_dims ? Shape{{apart[0].name, apart.size()}} : apart;
}

Initializer AttentionProjections::kernel_initializer(double stddev, int64_t fan_in, int64_t fan_out,
                                                     double scale) const {
  if (!options_.kernel_initializer) return Initializer::normal(stddev * scale);
  Initializer initializer = make_initializer(*options_.kernel_initializer, fan_in, fan_out);
  initializer.value *= scale;
  return initializer;
}

Tensor AttentionProjections::add_bias(const Tensor& y, const std::string& variable,
                                      const Shape& output) const {
  const bool added =
      options_.bias == AttentionBias::kAll || (options_.bias == AttentionBias::kInputs && variable != "o");
  if (!added) return y;
  const Initializer initializer = make_initializer(options_.bias_initializer, output.size(), output.size());
  return add(y, context_.variable(variable + "_bias", output, initializer), y.shape());
}

Tensor AttentionProjections::project(const Tensor& x, AttentionKernel which, const std::string& variable,
                                     const Shape& heads, double scale) const {
  const Shape apart = heads + Shape{key_}, stored = in_variable(apart);
  const double stddev = 1 / std::sqrt(static_cast<double>(model_.size));
  const Initializer initializer = kernel_initializer(stddev, model_.size, apart.size(), scale);
  const Tensor kernel = context_.variable(variable, Shape{model_} + stored, initializer, scale);
  const Tensor y = add_bias(product(x, which, variable, kernel, Shape{model_}, stored), variable, stored);
  return replace_dimensions(y, stored, apart);
}

bool AttentionProjections::has_lora(AttentionKernel kernel) const {
  const auto is_named = [&](AttentionKernel wanted) {
    return std::ranges::find(options_.lora->kernels, wanted) != options_.lora->kernels.end();
  };
  if (!options_.lora) return false;
  const bool is_of_values = kernel == AttentionKernel::kKeys && options_.shared_kv;
  return is_named(kernel) || (is_of_values && is_named(AttentionKernel::kValues));
}

Tensor AttentionProjections::product(const Tensor& x, AttentionKernel which, const std::string& variable,
                                     const Tensor& kernel, const Shape& over, const Shape& output) const {
  const Shape made = x.shape() - over + output;
  const Tensor y = einsum({x, kernel}, made);
  return has_lora(which) ? add(y, lora_update(context_, variable, x, over, output, *options_.lora), made) : y;
}

double AttentionProjections::scale() const {
  return 1 / std::sqrt(static_cast<double>(options_.scaling_size.value_or(key_.size)));
}

Tensor AttentionProjections::query(const Tensor& x) const {
  if (options_.fold_scaling_into_initializer)
    return project(x, AttentionKernel::kQueries, "q", query_heads_, scale());
  if (options_.qk_norm != QkNorm::kNone)
    return project(x, AttentionKernel::kQueries, "q",
                   query_heads_);  // AttentionMixing divides behind the norm
  return scalar_multiply(project(x, AttentionKernel::kQueries, "q", query_heads_), scale());
}

Tensor AttentionProjections::key(const Tensor& x) const {
  return project(x, AttentionKernel::kKeys, options_.shared_kv ? "kv" : "k", memory_heads_);
}

Tensor AttentionProjections::value(const Tensor& x) const {
  return project(x, AttentionKernel::kValues, options_.shared_kv ? "kv" : "v", memory_heads_);
}

Tensor AttentionProjections::output(const Tensor& mixed) const {
  const Shape apart = query_heads_ + Shape{key_}, stored = in_variable(apart);
  const double stddev = 1 / std::sqrt(static_cast<double>(apart.size()));
  const Initializer initializer = kernel_initializer(stddev, apart.size(), model_.size, 1);
  const Tensor kernel = context_.variable("o", stored + Shape{model_}, initializer);
  const Tensor x = replace_dimensions(mixed, apart, stored);
  return add_bias(product(x, AttentionKernel::kOutput, "o", kernel, stored, Shape{model_}), "o",
                  Shape{model_});
}

config::EnumNames enum_names(AttentionBias) {
  return {{"false", AttentionBias::kNone}, {"true", AttentionBias::kAll}, {"qkv", AttentionBias::kInputs}};
}

config::EnumNames enum_names(RelativeAttention) {
  return {{"none", RelativeAttention::kNone},
          {"bias", RelativeAttention::kBias},
          {"bias_shared", RelativeAttention::kBiasShared}};
}

}  // namespace mtf
