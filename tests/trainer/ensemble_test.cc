// Ensembles: members that agree decode what each of them decodes, an ensemble of different members predicts the
// mean of their probabilities (or logits), and no layout changes that.
#include "trainer/decode/ensemble.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "tests/trainer/decode_testing.h"

namespace mtf::testing {
namespace {

constexpr int64_t kEnsembleIds = 14;
constexpr const char* kEnsembleMember =
    "{type: bitransformer, d_model: 8, max_length: 16, vocab_divisor: 4, "
    "layer_defaults: {SelfAttention: {num_heads: 2, key_value_size: 4}, "
    "EncDecAttention: {num_heads: 2, key_value_size: 4}, DenseReluDense: {hidden_size: 8}}, "
    "encoder: {num_layers: 1, block: [SelfAttention, DenseReluDense]}, "
    "decoder: {num_layers: 1, block: [SelfAttention, EncDecAttention, DenseReluDense]}}";

std::vector<GivenText> texts_for_ensembles() {
  std::vector<GivenText> given = growing_texts(5, 12);
  given[3].prefix = {4, 5};
  return given;
}

/// A member whose weights are up to `size`.
struct EnsembleSeat {
  EnsembleSeat(double largest, double share = 1, std::string yaml = kEnsembleMember)
      : size(largest), weight(share), model(std::move(yaml)) {}

  double size, weight;
  std::string model;
};

/// An ensemble of models.
class EnsembleRun {
 public:
  explicit EnsembleRun(const std::vector<EnsembleSeat>& seats, const Layouts& layout = Layouts::single(),
                       EnsembleMean mean = EnsembleMean::kProbabilities)
      : ensemble_{{}, mean} {
    for (const EnsembleSeat& seat : seats) {
      members_.push_back(std::make_unique<DecodeRun>(seat.model, kEnsembleIds, layout));
      members_.back()->set_varied(seat.size);
      ensemble_.members.push_back({members_.back()->session().model.get(), seat.weight});
    }
    const Session& session = members_[0]->session();
    all_ = std::make_unique<VariableStore>(*session.backend, session.layouts.mesh,
                                           std::vector<ProgramVariable>(), variable_store_options(session));
    for (size_t i = 0; i < members_.size(); ++i)
      all_->share_as(member_name(static_cast<int64_t>(i)) + "/", members_[i]->weights());
  }

  DecodeRun& member(size_t i) { return *members_[i]; }
  std::vector<Written> decode(const DecodeOptions& options) {
    DecodePrograms programs(members_[0]->session(), ensemble_);
    return *Decoder(programs, *all_, options, 1)
                .decode(texts_for_ensembles(), static_cast<size_t>(options.batch_size));
  }
  /// Returns the log-probabilities of the first token behind the prefixes of some texts, of one member, or of
  /// the ensemble (-1).
  Values first_log_probs(int member) {
    const Session& session = members_[static_cast<size_t>(std::max(member, 0))]->session();
    DecodePrograms programs(session, member < 0 ? ensemble_ : Ensemble{});
    VariableStore& weights = member < 0 ? *all_ : members_[static_cast<size_t>(member)]->weights();
    DecodePlan plan{.sizes = {.texts = 4, .inputs = 6, .prefix = 1, .memory = 16},
                    .answer = DecodeAnswer::kLogProbs};
    DecodeMemory memory(session, 1);
    DecodeStage stage(programs, weights, plan, memory);
    std::vector<int32_t> inputs;
    for (int32_t i = 0; i < 24; ++i) inputs.push_back(2 + i * 5 % 12);
    const std::vector<int32_t> zeros(4);
    Executor& prefill = stage.prefill();
    prefill.feed("inputs", inputs.data());
    for (const char* name : {"prefix", "position", "prompt"}) prefill.feed(name, zeros.data());
    prefill.run(0);
    return from_host(prefill.fetch("log_probs"));
  }

 private:
  Ensemble ensemble_;
  std::vector<std::unique_ptr<DecodeRun>> members_;
  std::unique_ptr<VariableStore> all_;
};

const std::vector<DecodeOptions>& decoding_methods() {
  static const std::vector<DecodeOptions> all = {
      {.method = GreedyMethod{}},
      {.method = BeamMethod{}, .beam_size = 3, .n_best = 3},
      {.method = SampleMethod{.samples = 2}},
  };
  return all;
}

TEST(Ensemble, MembersThatAgreeDecodeWhatEachOfThemDecodes) {
  for (const size_t members : {2, 3}) {
    EnsembleRun run(std::vector<EnsembleSeat>(members, 0.9));
    for (const DecodeOptions& options : decoding_methods())
      expect_equal_texts(run.decode(options), run.member(0).decode(texts_for_ensembles(), options), 0);
  }
}

TEST(Ensemble, PredictsTheMeanOfTheProbabilities) {
  EnsembleRun run({0.9, 0.4, 0.7});
  const Values actual = run.first_log_probs(-1), a = run.first_log_probs(0), b = run.first_log_probs(1),
               c = run.first_log_probs(2);
  ASSERT_FALSE(actual.empty());
  int finite = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double mean = (std::exp(a[i]) + std::exp(b[i]) + std::exp(c[i])) / 3;
    if (mean == 0) {
      EXPECT_EQ(actual[i], -std::numeric_limits<double>::infinity());  // padding of the vocabulary
      continue;
    }
    EXPECT_NEAR(actual[i], std::log(mean), 2e-6);
    EXPECT_GT(std::abs(a[i] - b[i]) + std::abs(b[i] - c[i]), 1e-5);
    ++finite;
  }
  EXPECT_EQ(finite, 4 * kEnsembleIds);
}

TEST(Ensemble, MeanLogitPredictsTheSoftmaxOfTheMeanOfTheLogits) {
  EnsembleRun run({0.9, 0.4}, Layouts::single(), EnsembleMean::kLogits);
  const Values actual = run.first_log_probs(-1), a = run.first_log_probs(0), b = run.first_log_probs(1);
  const size_t columns = actual.size() / 4;
  for (size_t row = 0; row < 4; ++row) {
    // A shift of all logits changes no probability, so log-probabilities stand for logits. The padding of the
    // vocabulary, part of the sum as well, makes the sum a little larger than that of the known tokens.
    const auto mean = [&](size_t token) { return (a[row * columns + token] + b[row * columns + token]) / 2; };
    for (size_t token = 1; token < kEnsembleIds; ++token)
      EXPECT_NEAR(actual[row * columns + token] - actual[row * columns], mean(token) - mean(0), 2e-6);
  }
}

/// A deeper and wider model than kEnsembleMember, with a vocabulary that is padded to 24 and relative positions.
constexpr const char* kLargeMember =
    "{type: bitransformer, d_model: 16, positions: none, vocab_divisor: 24, "
    "layer_defaults: {SelfAttention: {num_heads: 4, key_value_size: 4, relative_attention_type: "
    "bias_shared}, "
    "EncDecAttention: {num_heads: 4, key_value_size: 4}, DenseReluDense: {hidden_size: 24}}, "
    "encoder: {num_layers: 2, block: [SelfAttention, DenseReluDense]}, "
    "decoder: {num_layers: 3, block: [SelfAttention, EncDecAttention, DenseReluDense]}}";

TEST(Ensemble, UnlikeMembersPredictTheWeightedMean) {
  const std::vector<EnsembleSeat> seats{{0.9, 2}, {0.4, 0.5, kLargeMember}, {0.7, 1.5}};
  constexpr double kSum = 4;
  for (const EnsembleMean mean :
       {EnsembleMean::kProbabilities, EnsembleMean::kLogProbabilities, EnsembleMean::kLogits}) {
    EnsembleRun run(seats, Layouts::single(), mean);
    const Values actual = run.first_log_probs(-1);
    std::vector<Values> members;
    for (int i = 0; i < 3; ++i) members.push_back(run.first_log_probs(i));
    const size_t columns = actual.size() / 4;
    EXPECT_EQ(columns, members[0].size() / 4);
    for (size_t row = 0; row < 4; ++row) {
      double shift = 0;  // what the softmax of the mean of the logits subtracts
      for (size_t token = 0; token < kEnsembleIds; ++token) {
        double of_probabilities = 0, of_logs = 0;
        for (size_t i = 0; i < 3; ++i) {
          const double log_prob = members[i][row * (members[i].size() / 4) + token];
          of_probabilities += seats[i].weight / kSum * std::exp(log_prob);
          of_logs += seats[i].weight / kSum * log_prob;
        }
        const double here = actual[row * columns + token];
        if (token == 0) shift = mean == EnsembleMean::kLogits ? here - of_logs : 0;
        EXPECT_NEAR(here - shift, mean == EnsembleMean::kProbabilities ? std::log(of_probabilities) : of_logs,
                    4e-6);
      }
    }
  }
}

TEST(Ensemble, UnlikeMembersDecodeAlikeOnEveryLayout) {
  const std::vector<std::pair<std::string, std::string>> all = {
      {"x:2", "batch:x"},
      {"y:2", "heads:y;d_ff:y;vocab:y"},
      {"x:2;y:2", "batch:x;d_model:y"},
      {"x:8", "batch:x"},
  };
  const std::vector<EnsembleSeat> seats{{0.9, 2}, {0.4, 1, kLargeMember}};
  EnsembleRun alone(seats);
  for (const DecodeOptions& options : decoding_methods()) {
    const std::vector<Written> expected = alone.decode(options);
    for (const auto& [mesh, layout] : all) {
      SCOPED_TRACE(mesh + " " + layout);
      EnsembleRun run(seats, layouts(mesh, layout));
      expect_equal_texts(run.decode(options), expected, 2e-5F);
    }
  }
}

TEST(Ensemble, DecodesAlikeOnEveryLayout) {
  const std::vector<std::pair<std::string, std::string>> all = {
      {"x:2", "batch:x"},
      {"y:2", "heads:y;d_ff:y;vocab:y"},
      {"x:2;y:2", "batch:x;heads:y;d_ff:y;vocab:y"},
      {"x:2;y:2", "batch:x;d_model:y"},
      {"x:8", "batch:x"},
  };
  EnsembleRun alone({0.9, 0.4});
  for (const DecodeOptions& options : decoding_methods()) {
    const std::vector<Written> expected = alone.decode(options);
    for (const auto& [mesh, layout] : all) {
      SCOPED_TRACE(mesh + " " + layout);
      EnsembleRun run({0.9, 0.4}, layouts(mesh, layout));
      expect_equal_texts(run.decode(options), expected, 1e-5F);
    }
  }
}

}  // namespace
}  // namespace mtf::testing
