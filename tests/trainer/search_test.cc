// Tests beam search and sampling for one text, on synthetic distributions.
#include "trainer/decode/search.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "data/vocabulary/vocabulary.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;

/// Returns log-probabilities of the next of 4 tokens (1 ends the text) after `text`: an arbitrary function of
/// the text.
std::vector<float> next_of(const std::vector<int32_t>& text, uint64_t seed) {
  const PhiloxKey key = random_key(std::string(text.begin(), text.end()), seed);
  std::vector<float> logits(4);
  double sum = 0;
  for (int i = 0; i < 4; ++i) {
    logits[static_cast<size_t>(i)] =
        static_cast<float>(random_bits(key, RandomStream::kData, 0, i) % 1000) / 250.0f;
    sum += std::exp(logits[static_cast<size_t>(i)]);
  }
  for (float& x : logits) x -= static_cast<float>(std::log(sum));
  return logits;
}

/// All tokens of the vocabulary as candidates for each hypothesis, best first.
struct AllCandidates {
  std::vector<float> log_probs;
  std::vector<int32_t> tokens;
  void add(const std::vector<float>& of_token) {
    std::vector<int32_t> order = {0, 1, 2, 3};
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return of_token[a] > of_token[b]; });
    for (const int32_t token : order) {
      tokens.push_back(token);
      log_probs.push_back(of_token[token]);
    }
  }
  Candidates candidates() const { return {4, log_probs, tokens}; }
};

Hypothesis search(int64_t beam, double alpha, int64_t limit, uint64_t seed) {
  BeamSearch search({.beam = beam, .length_penalty = alpha, .limit = limit});
  std::vector<std::vector<int32_t>> texts(1), places(static_cast<size_t>(beam));  // texts; what is read where
  bool has_padding = false;  // there were fewer hypotheses than places
  while (true) {
    AllCandidates all;
    for (const auto& text : texts) all.add(next_of(text, seed));
    search.advance(all.candidates());
    if (search.done()) return search.results()[0];
    std::vector<std::vector<int32_t>> next;
    for (size_t i = 0; i < search.tokens().size(); ++i) {
      next.push_back(texts[static_cast<size_t>(search.parents()[i])]);
      // The tokens that are not said to have moved were read in this place.
      const auto kept = static_cast<ptrdiff_t>(next.back().size()) - search.moved()[i];
      const auto of_place = std::ranges::mismatch(places[i], next.back()).in1 - places[i].begin();
      EXPECT_GE(kept, 0);
      EXPECT_GE(of_place, kept);
      next.back().push_back(search.tokens()[i]);
    }
    for (size_t i = 0; i < next.size(); ++i) places[i] = next[i];
    for (size_t i = next.size(); i < places.size(); ++i) places[i].push_back(-1);  // padding
    ptrdiff_t alike = std::ssize(places[0]) - 1;  // before the token that is read now
    for (const auto& place : places)
      alike = std::min(alike, std::ranges::mismatch(place, places[0]).in1 - place.begin());
    const ptrdiff_t said = std::ssize(places[0]) - 1 - search.apart();
    EXPECT_GE(said, 0);
    EXPECT_LE(said, alike);
    if (next.size() == places.size() && !has_padding) {
      EXPECT_EQ(said, alike);
    }
    has_padding |= next.size() < places.size();
    texts = next;
  }
}

/// Finds the best of all texts that end within `limit` tokens.
void best_of_all(std::vector<int32_t>& text, double log_prob, double alpha, int64_t limit, uint64_t seed,
                 double& best) {
  const std::vector<float> next = next_of(text, seed);
  const auto length = static_cast<int64_t>(text.size()) + 1;
  best = std::max(best, (log_prob + next[kEosId]) / length_penalty(length, alpha));
  if (length == limit) return;
  for (const int32_t token : {0, 2, 3}) {
    text.push_back(token);
    best_of_all(text, log_prob + next[static_cast<size_t>(token)], alpha, limit, seed, best);
    text.pop_back();
  }
}

TEST(BeamSearch, AWideBeamFindsTheBestOfAllTexts) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (const double alpha : {0.0, 0.6, 2.0}) {
      double best = -std::numeric_limits<double>::infinity();
      std::vector<int32_t> text;
      best_of_all(text, 0, alpha, 4, seed, best);
      EXPECT_NEAR(search(256, alpha, 4, seed).score, best, 1e-6) << seed << " " << alpha;
    }
  }
}

TEST(BeamSearch, TextsWithoutAnEndAreResultsWhereNoneHasOne) {
  BeamSearch search({.beam = 2, .length_penalty = 0, .limit = 1, .results = 5});
  const std::vector<float> log_probs = {-0.5f, -1.0f, -2.0f, -9.0f};
  const std::vector<int32_t> tokens = {7, 8, 9, 10};
  search.advance({4, log_probs, tokens});
  EXPECT_TRUE(search.done());
  const auto results = search.results();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_THAT(results[0].tokens, ElementsAre(7));
  EXPECT_THAT(results[1].tokens, ElementsAre(8));
}

/// The first step ends a text that no other can beat; further texts end in the second step.
TEST(BeamSearch, GoesOnUntilAllResultsAreCertain) {
  for (const int64_t wanted : {1, 2}) {
    BeamSearch search({.beam = 2, .length_penalty = 0, .limit = 9, .results = wanted});
    const std::vector<float> first = {-0.1f, -3, -4, -9};
    const std::vector<int32_t> tokens = {kEosId, 5, 4, 6};
    search.advance({4, first, tokens});
    ASSERT_EQ(search.done(), wanted == 1);
    if (search.done()) continue;
    const std::vector<float> second = {-0.1f, -3, -4, -9, -0.2f, -3, -4, -9};
    const std::vector<int32_t> both = {kEosId, 5, 4, 6, kEosId, 5, 4, 6};
    search.advance({4, second, both});
    EXPECT_TRUE(search.done());
    ASSERT_EQ(search.results().size(), 2u);
    EXPECT_THAT(search.results()[0].tokens, ElementsAre(kEosId));
    EXPECT_THAT(search.results()[1].tokens, ElementsAre(5, kEosId));
  }
}

TEST(BeamSearch, OfEqualCandidatesTheLowerTokenWins) {
  BeamSearch search({.beam = 2, .length_penalty = 0, .limit = 9});
  const std::vector<float> log_probs = {-1, -1, -1, -1};
  const std::vector<int32_t> tokens = {3, 5, 4, 6};
  search.advance({4, log_probs, tokens});
  EXPECT_THAT(search.tokens(), ElementsAre(3, 4));
  EXPECT_THAT(search.parents(), ElementsAre(0, 0));
}

/// The best of the hypotheses that continue one has its place, whatever their order.
TEST(BeamSearch, HypothesesStayInTheirPlaces) {
  BeamSearch search({.beam = 3, .length_penalty = 0, .limit = 9});
  const std::vector<float> first = {-1, -2, -3, -9};
  const std::vector<int32_t> tokens = {3, 4, 5, 6};
  search.advance({4, first, tokens});
  EXPECT_THAT(search.tokens(), ElementsAre(3, 4, 5));
  EXPECT_THAT(search.parents(), ElementsAre(0, 0, 0));
  // The third becomes the best, the second the next ones, and the first has no continuation.
  const std::vector<float> second = {-9, -9.5, -9.6, -9.7, -1, -1.5, -7, -8, -0.5, -5, -6, -7};
  const std::vector<int32_t> again = {3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
  search.advance({4, second, again});
  EXPECT_THAT(search.tokens(), ElementsAre(8, 7, 11));
  EXPECT_THAT(search.parents(), ElementsAre(1, 1, 2));
  // The candidates of a hypothesis are those of its place.
  const std::vector<float> third = {-0.1f, -9, -9, -9, -0.2f, -9, -9, -9, -5, -9, -9, -9};
  const std::vector<int32_t> ends = {kEosId, 4, 5, 6, kEosId, 8, 9, 10, 11, 12, 13, 14};
  search.advance({4, third, ends});
  const auto results = search.results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_THAT(results[0].tokens, ElementsAre(4, 7, kEosId));
}

/// What places have in common takes memory for each of them, not for each pair.
TEST(BeamSearch, TakesMemoryInProportionToTheBeam) {
  BeamSearch search({.beam = 300'000, .length_penalty = 0, .limit = 9});
  const std::vector<float> first = {-1, -2, -3, -9};
  const std::vector<int32_t> tokens = {3, 4, 5, 6};
  search.advance({4, first, tokens});
  EXPECT_THAT(search.tokens(), ElementsAre(3, 4, 5, 6));
  EXPECT_EQ(search.apart(), 0);
  EXPECT_EQ(search.moved().size(), 300'000u);
  EXPECT_EQ(BeamSearch::bytes(2000, 50), 2 * BeamSearch::bytes(1000, 50));
  EXPECT_EQ(BeamSearch::step_bytes(2000, 260), 2 * BeamSearch::step_bytes(1000, 260));
}

/// All tokens, in their order.
Candidates all_of(const std::vector<float>& log_probs) { return {std::ssize(log_probs), log_probs, {}}; }

std::map<int32_t, int> counts(const std::vector<float>& log_probs, const SampleOptions& options, int draws) {
  const PhiloxKey key = random_key("sampling", 1);
  std::map<int32_t, int> counts;
  for (size_t i = 0; i < static_cast<size_t>(draws); ++i)
    ++counts[draw_token(all_of(log_probs), options, key, 3, i * log_probs.size()).token];
  return counts;
}

TEST(DrawToken, FollowsTheDistribution) {
  const std::vector<float> logits = {0, std::log(2.0f), std::log(3.0f), std::log(4.0f)};
  auto seen = counts(logits, {}, 20000);
  for (int token = 0; token < 4; ++token) EXPECT_NEAR(seen[token] / 20000.0, (token + 1) / 10.0, 0.015);
  seen = counts(logits, {.temperature = 0.5}, 20000);
  for (int token = 0; token < 4; ++token)
    EXPECT_NEAR(seen[token] / 20000.0, (token + 1) * (token + 1) / 30.0, 0.015);
}

TEST(DrawToken, KeepsTheLikeliestTokensOnly) {
  const std::vector<float> logits = {0, std::log(2.0f), std::log(3.0f), std::log(4.0f)};
  EXPECT_EQ(counts(logits, {.top_k = 2}, 500).size(), 2u);
  EXPECT_EQ(counts(logits, {.top_p = 0.65}, 500).size(), 2u);
  EXPECT_EQ(counts(logits, {.top_p = 0.75}, 500).size(), 3u);
  EXPECT_EQ(counts(logits, {.top_p = 0}, 50).size(), 1u);
  EXPECT_EQ(counts(logits, {.min_p = 0.45}, 500).size(), 3u);
  EXPECT_EQ(counts(logits, {.temperature = 0.5, .min_p = 0.45}, 500).size(), 2u);  // of 1, 4, 9 and 16
  EXPECT_EQ(counts(logits, {.top_k = 3, .min_p = 1}, 500).size(), 1u);
  EXPECT_EQ(counts(logits, {.temperature = 0}, 50).begin()->first, 3);
}

TEST(DrawToken, GivesTheLogProbabilityOfTheModel) {
  const std::vector<float> log_probs = {std::log(0.25f), std::log(0.75f)};
  EXPECT_EQ(draw_token(all_of(log_probs), {.temperature = 0}, {}, 0, 0).log_prob, log_probs[1]);
  EXPECT_EQ(draw_token(all_of(log_probs), {.temperature = 1e-310}, {}, 0, 0).token,
            1);  // quotients are infinite
  const PhiloxKey key = random_key("sampling", 1);
  for (uint64_t i = 0; i < 20; ++i) {
    const Draw draw = draw_token(all_of(log_probs), {.temperature = 3}, key, 0, 2 * i);
    EXPECT_EQ(draw.log_prob, log_probs[static_cast<size_t>(draw.token)]);
  }
}

/// The token with the largest sum of log_prob / temperature and noise, among the likeliest ones: by its definition.
int32_t drawn_by_definition(const std::vector<float>& log_probs, const SampleOptions& options, PhiloxKey key,
                            uint64_t first) {
  std::vector<int32_t> order(log_probs.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](int32_t i) { return log_probs[static_cast<size_t>(i)]; });
  if (options.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(options.top_k)));
  const auto scaled = [&](int32_t i) { return log_probs[static_cast<size_t>(i)] / options.temperature; };
  double all = 0, so_far = 0, largest = -std::numeric_limits<double>::infinity();
  for (const int32_t i : order) all += std::exp(scaled(i) - scaled(order[0]));
  int32_t drawn = -1;
  for (size_t rank = 0; rank < order.size() && (rank == 0 || so_far < options.top_p * all); ++rank) {
    const int32_t i = order[rank];
    so_far += std::exp(scaled(i) - scaled(order[0]));
    if (std::exp(scaled(i) - scaled(order[0])) < options.min_p) continue;
    const uint32_t bits = random_bits(key, RandomStream::kSampling, 5, static_cast<int64_t>(first) + i);
    const double value = scaled(i) - std::log(-std::log(uniform_from_bits(bits)));
    if (value > largest) drawn = i;
    largest = std::max(largest, value);
  }
  return drawn;
}

/// The noise of token 2 is the largest that there is.
TEST(DrawToken, MayTakeATokenThatNeedsTheLargestNoise) {
  const std::vector<float> log_probs = {0, -60, -17.9488f, -60};
  EXPECT_EQ(draw_token(all_of(log_probs), {}, {1, 2}, 5, 14412592).token, 2);
  EXPECT_EQ(drawn_by_definition(log_probs, {}, {1, 2}, 14412592), 2);
}

/// Most tokens are not looked at closely; the ones that matter are.
TEST(DrawToken, IsTheTokenWithTheLargestNoisyLogProbability) {
  std::mt19937 random(1);
  const PhiloxKey key = random_key("sampling", 2);
  std::set<int32_t> tokens;
  for (uint64_t i = 0; i < 600; ++i) {
    std::vector<float> log_probs(1 + random() % 700);
    const float spread = std::array{0.01f, 3.0f, 12.0f, 40.0f}[random() % 4];
    for (float& value : log_probs)
      value = random() % 50 == 0 ? -std::numeric_limits<float>::infinity()
                                 : -spread * static_cast<float>(random() % 10'000) / 10'000;
    log_probs[random() % log_probs.size()] = 0;
    const SampleOptions options{.temperature = std::array{0.3, 1.0, 2.5}[random() % 3],
                                .top_k = random() % 2 == 0 ? 0 : static_cast<int64_t>(1 + random() % 90),
                                .top_p = std::array{1.0, 0.97, 0.5}[random() % 3],
                                .min_p = std::array{0.0, 0.01, 0.2}[random() % 3]};
    const Draw draw = draw_token(all_of(log_probs), options, key, 5, 777 * i);
    ASSERT_EQ(draw.token, drawn_by_definition(log_probs, options, key, 777 * i)) << "draw " << i;
    EXPECT_EQ(draw.log_prob, log_probs[static_cast<size_t>(draw.token)]);
    tokens.insert(draw.token);
    if (options.top_k == 0) continue;
    // The likeliest tokens alone, as a program gives them.
    std::vector<int32_t> best(log_probs.size());
    std::iota(best.begin(), best.end(), 0);
    std::ranges::stable_sort(best, std::ranges::greater{},
                             [&](int32_t t) { return log_probs[static_cast<size_t>(t)]; });
    best.resize(std::min(best.size(), static_cast<size_t>(options.top_k)));
    std::vector<float> of_best;
    for (const int32_t t : best) of_best.push_back(log_probs[static_cast<size_t>(t)]);
    EXPECT_EQ(draw_token({std::ssize(best), of_best, best}, options, key, 5, 777 * i).token, draw.token)
        << "draw " << i;
  }
  EXPECT_GT(tokens.size(), 100u);
}

}  // namespace
}  // namespace mtf
