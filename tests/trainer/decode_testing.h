// A model with weights that decodes texts, without any files.
//
//   DecodeRun run("{type: lm, ...}", 64, layouts("x:2;y:2", "batch:x;heads:y"));
//   run.set("transformer/embedding", values);
//   run.decode(texts, {.beam_size = 4})[0][0].tokens
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/vocabulary/vocabulary.h"
#include "tests/support/parse_model.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/test_backend.h"
#include "trainer/decode/decoder.h"

namespace mtf::testing {

/// Returns `count` texts, each an entry longer than the one before, of `different` tokens.
inline std::vector<GivenText> growing_texts(int32_t count, int32_t different) {
  std::vector<GivenText> given;
  for (int32_t row = 0; row < count; ++row) {
    GivenText text{.inputs = {}, .prefix = {}, .limit = 6 + row, .number = static_cast<uint64_t>(row)};
    for (int32_t i = 0; i < 2 + row; ++i) text.inputs.push_back(2 + (7 * i + row) % different);
    text.inputs.push_back(kEosId);
    given.push_back(std::move(text));
  }
  return given;
}

inline void expect_equal_texts(const std::vector<Written>& actual, const std::vector<Written>& expected,
                               double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t text = 0; text < actual.size(); ++text) {
    ASSERT_EQ(actual[text].size(), expected[text].size()) << "text " << text;
    for (size_t i = 0; i < actual[text].size(); ++i) {
      ASSERT_EQ(actual[text][i].tokens, expected[text][i].tokens) << "text " << text;
      ASSERT_EQ(actual[text][i].log_probs.size(), expected[text][i].log_probs.size()) << "text " << text;
      for (size_t token = 0; token < actual[text][i].log_probs.size(); ++token)
        EXPECT_NEAR(actual[text][i].log_probs[token], expected[text][i].log_probs[token], tolerance)
            << "text " << text;
    }
  }
}

class DecodeRun {
 public:
  /// `vocabulary` is the number of ids of inputs and of targets. Replicas are checked.
  DecodeRun(const std::string& model, int64_t vocabulary, const Layouts& layouts = Layouts::single(),
            InferPrecision precision = InferPrecision::kSame)
      : session_(make_session(model, vocabulary, layouts)), weights_(make_weights(session_)) {
    weights_.initialize(1);
    session_.config.precision.infer = precision;
  }

  void set(const std::string& name, const Values& values) {
    const Variable& variable = weights_.variable(name);
    weights_.set(name, to_host(variable.shape, variable.dtype, values));
  }
  /// Sets the weights to different values up to `size`, and scales to 1. They are larger than initial
  /// weights, so that the texts differ.
  void set_varied(double size) {
    for (const std::string& name : weights_.names()) {
      Values values;
      for (int64_t i = 0; i < weights_.variable(name).shape.size(); ++i)
        values.push_back(name.ends_with("scale") ? 1
                                                 : size * std::sin(1.7 * static_cast<double>(i) +
                                                                   static_cast<double>(name.size())));
      set(name, values);
    }
  }
  std::vector<Written> decode(const std::vector<GivenText>& texts, const DecodeOptions& options) {
    const DecodeEnvironment environment = decode_environment(session_, {}, true);
    DecodePrograms programs(environment);
    const WeightsProgram read = program_of_weights(environment);
    VariableStore weights(*session_.backend, read.program.mesh, read.program.variables,
                          variable_store_options(session_, {&weights_}));
    read.conversions.make(session_, weights, [this](VariableStore& some) {
      for (const std::string& name : some.names()) {
        if (some.variable(name).is_saved()) some.set(name, weights_.get(name));
      }
    });
    return *Decoder(programs, weights, options, 1).decode(texts, static_cast<size_t>(options.batch_size));
  }
  void set_threads(int threads) { session_.config.run.threads.value = threads; }
  const Session& session() const { return session_; }
  Session& session() { return session_; }
  VariableStore& weights() { return weights_; }

 private:
  static Session make_session(const std::string& model, int64_t vocabulary, const Layouts& layouts) {
    Session session{{}, one_process(), {}, test_backend(), nullptr, {}, {}, nullptr};
    session.config.run.check_replicas = true;
    session.layouts = layouts;
    session.model = parse_model(model);
    std::vector<Feature> features;
    for (const char* name : {"inputs", "targets"})
      features.push_back({name, {{"length", 1}}, DType::kInt32, vocabulary});
    session.train_data = std::make_shared<DeclaredSource>(std::move(features));
    return session;
  }

  static VariableStore make_weights(const Session& session) {
    const Program program = program_of_weights(decode_environment(session)).program;
    return {*session.backend, program.mesh, program.variables, variable_store_options(session)};
  }

  Session session_;
  VariableStore weights_;
};

}  // namespace mtf::testing
