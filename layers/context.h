// What a layer sees while it adds itself to a graph: the graph, whether the model is trained or evaluated,
// the batch, the variables under the current scope, tensors that were kept by name.
//
//   Context context(graph, Mode::kTrain, {}, batch);
//   const auto scope = graph.scope("layer_1");
//   Tensor kernel = context.variable("kernel", {rows, hidden}, Initializer::normal(0.1));
//   // "layer_1/kernel"
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config/types.h"
#include "engine/core/matmul_precision.h"
#include "engine/graph/graph.h"
#include "layers/layer_tensor.h"
#include "layers/sequence.h"

namespace mtf {

enum class Mode { kTrain, kEvaluate };

/// Element types of variables (docs/numerics.md "Element types"), and how contractions are computed.
struct Precision {
  DType master = DType::kFloat32;      ///< in checkpoints
  DType slice = DType::kFloat32;       ///< as the resident value that is updated
  DType activation = DType::kFloat32;  ///< as layers see it
  MatmulPrecision matmul = MatmulPrecision::kFull;
};

class TokenEmbedding;

/// A token embedding in the list of layers of a model.
struct InputEmbedding {
  std::shared_ptr<const TokenEmbedding> embedding;
  std::string scope;     ///< the path of its variables
  Dimension vocabulary;  ///< what its logits are
  Dimension model;       ///< its vectors
};

/// Which weights are meant, by name; null: none.
using WeightFilter = std::function<bool(const std::string& weight)>;
/// Returns the name of the variable that holds a weight's running mean; empty: the weight has none.
using AverageNames = std::function<std::string(const std::string& weight)>;

/// What a layer says beside its result, in training: a loss, a number for the log, or what a running statistic moves by.
struct LayerTerm {
  enum class Kind { kLoss, kReport, kStatistic };
  Kind kind = Kind::kLoss;
  std::string name;  ///< the variable's name for a statistic
  Tensor value;      ///< the value in one microbatch; 0-dimensional for losses and plain reports
  const Variable* variable = nullptr;  ///< the statistic
  /// The statistic after the step, from the one before and the mean of `value` over the microbatches.
  std::function<Tensor(const Tensor& before, const Tensor& value)> updated = {};
  /// Numbers for the log, or lists of them (1-dimensional), from the mean of `value` over the microbatches; null: `value`
  /// is the number.
  std::function<std::map<std::string, Tensor>(const Tensor& value)> numbers = {};
};

/// A 0-dimensional float32 input of the training step whose value is a function of the step (from 0).
struct StepScalar {
  std::string input;
  std::function<double(int64_t step)> value;
  bool is_rate = false;  ///< a learning rate, which a run lowers after a divergence
};

/// Layers that are computed again in the backward pass instead of being kept.
struct RecomputedLayers {
  std::string layers;  ///< their kind or name; with a `/` a pattern that occurs in their scope paths
  /// So many of them, in the order in which they are applied; nothing: all.
  std::optional<int64_t> first = {};
};

/// A layer that was applied and can be computed again.
struct AppliedLayer {
  std::vector<std::string> names;  ///< kind and name
  std::string path;                ///< scope
};

class Context {
 public:
  Context(Graph& graph, Mode mode, const Precision& precision, const Dimension& batch)
      : graph_(graph), mode_(mode), precision_(precision), batch_(batch) {
    graph.set_matmul_precision(precision.matmul);
  }
  /// The context of a model that is only applied while `trained` is the context of the one that is trained: on the same
  /// batch, as in evaluation, with constants for variables (of the type of activations).
  static Context applied(const Context& trained) { return {Applied(), trained}; }
  bool is_applied() const { return is_applied_; }
  Context(const Context&) = delete;

  Graph& graph() { return graph_; }
  bool training() const { return mode_ == Mode::kTrain; }
  const Precision& precision() const { return precision_; }
  /// The dimension of the examples; inside a loop over microbatches that of one microbatch.
  const Dimension& batch() const { return batch_; }
  /// The same by the name that it has in x, where a layer has renamed it.
  Dimension batch_of(const Tensor& x) const;
  /// Says that a layer renames dimension `from`, which may be that of the examples.
  void note_rename(const std::string& from, const std::string& to);

  /// The value of variable SCOPE/`name` in the activation dtype, or in `dtype`; the variable is made on first use.
  /// Throws Error when it exists with another shape. `step_scale`: see Variable.
  Tensor variable(const std::string& name, const Shape& shape, const Initializer& initializer,
                  double step_scale = 1, std::optional<DType> dtype = {});
  /// A float32 variable SCOPE/`name` that no gradient moves but update_statistic(): running means and the like. It is
  /// saved and laid out as weights are.
  Tensor statistic(const std::string& name, const Shape& shape, const Initializer& initializer);
  /// True if training steps move the statistic SCOPE/`name`: false in evaluation, and where training keeps the variable.
  bool moves(const std::string& name) const;
  /// After each training step the statistic becomes updated(before, value), with the mean of `value` over the
  /// microbatches, if it moves(). `value` may have any shape. Where one layer is applied several times, the mean
  /// over its values counts.
  void update_statistic(const std::string& name, const Tensor& value,
                        std::function<Tensor(const Tensor& before, const Tensor& value)> updated);

  /// Says that in training the layer's result for one example depends on the other examples of batch(): with microbatches
  /// it is another one (batch norm).
  void use_batch_statistics();
  /// The scope paths of the layers that do, each once.
  const std::vector<std::string>& batch_statistics() const { return batch_statistics_; }

  /// Adds a loss of the layer (0-dimensional) to the one that training minimises, times `train.loss_weights.NAME`. The
  /// log has the sum over the layers as loss/NAME.
  void add_loss(const std::string& name, const Tensor& loss);
  /// The log of training has the mean over the layers of such numbers (0-dimensional) as report/NAME.
  void report(const std::string& name, const Tensor& value);
  /// The same for the numbers that follow from the mean of `value`, of any shape, over the microbatches. They may be
  /// 1-dimensional: the log then has a list, the mean over the layers, and TensorBoard a histogram of all layers.
  void report(const Tensor& value, std::function<std::map<std::string, Tensor>(const Tensor& value)> numbers);
  /// All of them so far.
  std::vector<LayerTerm>& terms() { return terms_; }

  /// The statistics that training moves; by default all.
  void set_moved(WeightFilter moved) { moved_ = std::move(moved); }

  /// Weights with running means are read as these, which the store of the variables must have.
  void set_averaged(AverageNames averaged) { averaged_ = std::move(averaged); }

  /// The value of an input that Model::scalars() names, or of another number that training gives (models/model.h).
  const Tensor& scalar(const std::string& input) const { return scalars_.at(input); }
  void set_scalars(std::map<std::string, Tensor> scalars) { scalars_ = std::move(scalars); }

  /// Number of ids of a feature of the data; 0: it does not hold ids.
  int64_t vocabulary(const std::string& feature) const {
    const auto found = vocabularies_.find(feature);
    return found == vocabularies_.end() ? 0 : found->second;
  }
  void set_vocabularies(std::map<std::string, int64_t> sizes) { vocabularies_ = std::move(sizes); }
  /// True if each row of a feature of the data is one text and then padding.
  bool has_one_text(const std::string& feature) const { return single_texts_.contains(feature); }
  void set_single_texts(std::set<std::string> features) { single_texts_ = std::move(features); }
  /// Number of ids of the feature that goes into the first layer; 0: it does not hold ids.
  int64_t input_vocabulary() const { return input_vocabulary_; }
  void set_input_vocabulary(int64_t size) { input_vocabulary_ = size; }

  /// What the data say of the tokens of the model's input, int32 [batch, length]; null where they say nothing.
  struct InputTokens {
    Tensor segmentation = {};  ///< 0 in the padding
    Tensor type = {};          ///< 0 in the first text of a row, 1 in the second
    Tensor position = {};      ///< the place in a text, from 0
    bool one_text = false;     ///< no row has a second text: all types are 0
  };
  const InputTokens& input_tokens() const { return input_tokens_; }
  void set_input_tokens(const InputTokens& tokens) { input_tokens_ = tokens; }

  /// The embedding of the model's input, which may make logits, too. Null where no layer has made one.
  const InputEmbedding& input_embedding() const { return input_embedding_; }
  void set_input_embedding(InputEmbedding embedding) { input_embedding_ = std::move(embedding); }

  /// The number of parts into which layouts split the experts of layers. It shapes buffers, and no result depends on it.
  int64_t expert_parts() const { return expert_parts_; }
  void set_expert_parts(int64_t parts) { expert_parts_ = parts; }

  /// Experts drop no tokens where texts are written and scored: a text must not depend on those beside it.
  bool keeps_tokens() const { return keeps_tokens_; }
  void set_keeps_tokens(bool keeps) { keeps_tokens_ = keeps; }

  /// Models of tokens compute logits and loss for so many parts of a row one after the other (models/token_loss.h).
  int64_t loss_chunks() const { return loss_chunks_; }
  void set_loss_chunks(int64_t chunks) { loss_chunks_ = chunks; }

  /// The outermost of nested layers are computed again.
  void set_recompute(std::vector<RecomputedLayers> layers);
  /// How many layers were found for each entry of set_recompute().
  const std::vector<int64_t>& found_recomputed() const { return found_; }
  /// Says that a layer begins. True if it is to be computed again, apart from layers around it.
  bool note_applied(AppliedLayer layer);
  /// Those that could be computed again, in the order in which they were applied.
  const std::vector<AppliedLayer>& applied_layers() const { return applied_; }
  /// True inside a layer that is computed again.
  bool recomputes() const { return recomputes_; }
  void set_recomputes(bool recomputes) { recomputes_ = recomputes; }

  /// The rows of tokens that layers of a Transformer work on. Throws Error outside one, naming `layer`.
  Sequence& sequence(std::string_view layer) const;
  Sequence* find_sequence() const { return sequence_; }
  /// Restores the previous sequence when it goes out of scope.
  class SequenceScope {
   public:
    SequenceScope(Context& context, Sequence& sequence) : context_(context), outer_(context.sequence_) {
      context.sequence_ = &sequence;
    }
    ~SequenceScope() { context_.sequence_ = outer_; }
    SequenceScope(const SequenceScope&) = delete;

   private:
    Context& context_;
    Sequence* outer_;
  };
  [[nodiscard]] SequenceScope enter(Sequence& sequence) { return {*this, sequence}; }

  /// Keeps a tensor; a later one of the same name replaces it.
  void save(const std::string& name, const LayerTensor& tensor) { saved_[name] = tensor; }
  /// Throws Error with the nearest name when nothing was kept under `name`.
  LayerTensor saved(const config::Name& name) const;

  /// The dimensions of x that the layer before it made: what the next dense layer contracts when it is not
  /// told. All but the batch where no layer made one.
  Shape made(const LayerTensor& x) const;

 private:
  struct Applied {};
  Context(Applied, const Context& trained);
  /// The variable SCOPE/`name`, or the constant of an applied model.
  const Variable& declare(const std::string& name, const Shape& shape, DType dtype, Variable::Kind kind,
                          const Initializer& initializer, double step_scale = 1);

  Graph& graph_;
  Mode mode_;
  Precision precision_;
  Dimension batch_;
  bool is_applied_ = false;
  std::set<std::string> batch_names_;  ///< other names of batch_
  WeightFilter moved_;                 ///< null: all
  AverageNames averaged_;              ///< null: all weights are read as they are
  std::vector<RecomputedLayers> recompute_;
  std::vector<int64_t> found_;
  std::vector<AppliedLayer> applied_;
  bool recomputes_ = false;
  Sequence* sequence_ = nullptr;
  std::map<std::string, int64_t> vocabularies_;
  std::set<std::string> single_texts_;
  int64_t input_vocabulary_ = 0;
  InputTokens input_tokens_;
  InputEmbedding input_embedding_;
  int64_t expert_parts_ = 1;
  bool keeps_tokens_ = false;
  int64_t loss_chunks_ = 1;
  std::map<std::string, Tensor> scalars_;
  std::vector<LayerTerm> terms_;
  std::vector<std::string> batch_statistics_;
  std::map<std::string, LayerTensor> saved_;
};

/// The dimension of x called `name`; throws Error that says which there are and which is nearest.
const Dimension& find_dimension(const Tensor& x, const config::Name& name);
/// The dimensions of x with these names, in the order of `names`.
Shape find_dimensions(const Tensor& x, const std::vector<config::Name>& names);

/// True when x and y have the same dimensions but for the size of `along`, which both have.
bool can_be_joined(const Tensor& x, const Tensor& y, const std::string& along);

/// Throws Error when a tensor of this shape, called `name`, is larger than any memory.
void check_elements(const std::string& name, const Shape& shape);

}  // namespace mtf
