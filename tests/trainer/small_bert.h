// A small BERT for tests of its conversion.
#pragma once

#include <string>

#include "trainer/programs/convert/bert_config.h"

namespace mtf::testing {

inline BertConfig small_bert(BertHead head) {
  BertConfig bert;
  bert.vocab_size = 50;
  bert.hidden = 24;
  bert.num_layers = 2;
  bert.num_heads = 3;
  bert.intermediate = 40;
  bert.max_positions = 30;
  bert.token_types = 3;
  bert.dropout = 0.25;
  bert.attention_dropout = 0.5;
  bert.epsilon = 1e-7;
  bert.initializer_range = 0.5;
  bert.activation = Activation::kRelu;
  bert.head = head;
  return bert;
}

inline std::string yaml(const BertConfig& bert) {
  return bert_yaml(bert, {.vocabulary = "{type: wordpiece, path: vocab.txt, size: 40}",
                          .target = {"/models/a b"},
                          .source = "bert"});
}

}  // namespace mtf::testing
