// Reads the layers of an encoder's model: what is alike in a BERT and in a ModernBERT.
//
//   class ModernBertReader : public BertLayersReader { ... BertConfig read() { read_head(); ... } };
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/programs/convert/bert_config.h"
#include "trainer/programs/convert/layer_options.h"

namespace mtf {

/// Parts of the section `model` of an encoder, each with whole lines.
struct EncoderText {
  std::string
      layers;  ///< elements of the list `layers` from the one behind the embedding up to the transformer
  std::string head;      ///< the elements behind these, or the key `transform`
  std::string defaults;  ///< entries of `layer_defaults`
};

class BertLayersReader {
 protected:
  /// `kind` names the kind of encoder in messages: the model is no BERT, or no ModernBERT.
  BertLayersReader(const Config& config, std::string_view kind);

  [[noreturn]] void refuse(const Mark& mark, const std::string& what, const std::string& right) const;
  void require(bool holds, const Mark& mark, const std::string& what, const std::string& right) const;
  RefuseLayer refusal() const {
    return [this](const Mark& mark, const std::string& what, const std::string& right) {
      refuse(mark, what, right);
    };
  }

  template <class Options>
  Options layer(const LayerEntry& entry) const {
    return parse_layer<Options>(entry, model_.find("layer_defaults"), refusal());
  }
  void expect_names(const std::vector<LayerEntry>& list, const std::vector<std::string>& wanted,
                    const Mark& mark, const std::string& what) const {
    expect_layers(list, wanted, mark, what, refusal());
  }
  /// The layers of a list without dropout; `rate` becomes that of the last one.
  std::vector<LayerEntry> left_of(const config::Node& list, double& rate) const {
    return without_dropout(list, model_.find("layer_defaults"), refusal(), rate);
  }

  /// Sets the head from the type of the model; the weights say whether there is a classifier of pairs.
  void read_head();
  /// Sets the layers of the model, with those of dropout.
  void read_list();
  const LayerEntry* find(std::string_view name) const;
  /// A layer that is there.
  const LayerEntry& at(std::string_view name) const { return *find(name); }
  /// The rate of the dropout at an index of the list; 0 if another layer is there, or none.
  double dropout_at(size_t index) const;
  /// The rate of the dropout before the last layer; 0 if another layer is there.
  double dropout_before_last() const { return list_.size() < 2 ? 0 : dropout_at(list_.size() - 2); }
  void leave_dropout_out();
  /// `has_dense`: logits do not come from the embedding.
  void read_embedding(const LayerEntry& entry, bool has_dense);
  /// Sets the `epsilon` of all norms.
  void add_epsilon(double epsilon, const Mark& mark);

  const config::Node& model_;
  Mark mark_, list_mark_;
  BertConfig bert_;
  std::vector<LayerEntry> list_;

 private:
  /// config.json has a deviation for all weights, and cannot say 1 or more.
  void read_initializer(const std::optional<InitializerOptions>& initializer);

  std::string_view kind_;
  bool has_epsilon_ = false;
};

}  // namespace mtf
