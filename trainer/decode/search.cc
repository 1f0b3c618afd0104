#include "trainer/decode/search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "data/vocabulary/vocabulary.h"
#include "engine/base/reproducible_math.h"

namespace mtf {
namespace {

struct Candidate {
  double log_prob;  ///< log-probability of the whole text, with penalties
  float of_token;
  int32_t parent, token;
};

bool better(const Candidate& a, const Candidate& b) {
  if (a.log_prob != b.log_prob) return a.log_prob > b.log_prob;
  return a.parent != b.parent ? a.parent < b.parent : a.token < b.token;
}

/// The end of sequence of a text that reaches its limit where the end is forced.
constexpr Draw kForcedEnd{kEosId, 0};

bool forces_end(const TextRules* rules) { return rules != nullptr && rules->forces_end(); }

int64_t ends_of(const TextRules* rules) { return rules == nullptr ? 1 : rules->ends(); }

bool is_end(const TextRules* rules, int32_t token) {
  return rules == nullptr ? token == kEosId : rules->is_end(token);
}

bool ranks_before(const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; }

/// Returns the indices of the candidates that may be drawn if not all may, in any order.
std::vector<int32_t> allowed(std::span<const float> log_probs, const SampleOptions& options) {
  std::vector<int32_t> indices(log_probs.size());
  std::iota(indices.begin(), indices.end(), 0);
  const auto likelier = [&](int32_t a, int32_t b) {
    return log_probs[a] != log_probs[b] ? log_probs[a] > log_probs[b] : a < b;
  };
  if (options.top_k > 0 && options.top_k < std::ssize(indices)) {
    const auto end = indices.begin() + options.top_k;
    std::nth_element(indices.begin(), end, indices.end(), likelier);
    indices.erase(end, indices.end());
  }
  if (options.top_p >= 1) return indices;
  const float top = *std::ranges::max_element(log_probs);
  std::vector<double> weights(log_probs.size());
  double sum = 0, kept = 0;
  for (const int32_t index : indices)
    sum += weights[index] = reproducible::exp((log_probs[index] - top) / options.temperature);
  // The likeliest end somewhere between `begin`, before which all are kept, and `end`.
  auto begin = indices.begin(), end = indices.end();
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, likelier);
    double half = 0;
    for (auto index = begin; index != middle; ++index) half += weights[*index];
    if (kept + half < options.top_p * sum) {
      kept += half;
      begin = middle;
    } else {
      end = middle;
    }
  }
  indices.erase(end, indices.end());
  return indices;
}

/// Finds the token with the largest log_prob / temperature + Gumbel noise, which is a draw from the softmax.
class GumbelRace {
 public:
  /// Begins with the likeliest token, so that most others need much noise.
  GumbelRace(double temperature, PhiloxKey key, uint64_t position, uint64_t first, const Draw& likeliest)
      : temperature_(temperature), key_(key), position_(position), first_(first), winner_(likeliest) {
    largest_ = noisy(likeliest, bits_of(likeliest.token));
  }

  void enter(const Draw& rival) {
    // The noise that it needs, in units a little smaller than log 2. The noise -log(-log(u)) is less than -log(1 - u), where
    // 1 - u is a whole number of 2^-24 less 2^-25, and so less than 25 log 2.
    constexpr double kUnits = 1.4426;
    constexpr int kBits = 24;
    const double needed = kUnits * (largest_ - rival.log_prob / temperature_);
    if (!(needed <= kBits + 1)) return;
    const uint32_t bits = bits_of(rival.token);
    constexpr uint32_t kOne = 1U << kBits;
    if (needed > 0 && kOne - (bits >> 8) > kOne >> static_cast<int>(needed)) return;
    const double value = noisy(rival, bits);
    if (value <= largest_) return;
    largest_ = value;
    winner_ = rival;
  }
  const Draw& winner() const { return winner_; }

 private:
  uint32_t bits_of(int32_t token) {
    const uint64_t element = first_ + static_cast<uint64_t>(token);
    if (element / 4 != block_) {
      block_ = element / 4;
      words_ = philox(philox_counter(RandomStream::kSampling, position_, block_), key_);
    }
    return words_.words[element % 4];
  }
  double noisy(const Draw& draw, uint32_t bits) const {
    return draw.log_prob / temperature_ - reproducible::log(-reproducible::log(uniform_from_bits(bits)));
  }

  double temperature_;
  PhiloxKey key_;
  uint64_t position_, first_;
  uint64_t block_ = ~uint64_t{0};  ///< number of the four random words below
  PhiloxBlock words_;
  Draw winner_;
  double largest_;
};

}  // namespace

double length_penalty(int64_t length, double alpha, double plus) {
  return reproducible::pow((plus + static_cast<double>(length)) / (plus + 1), alpha);
}

BeamSearch::BeamSearch(const BeamOptions& options)
    : options_(options),
      alive_(1),
      order_(static_cast<size_t>(options.beam)),
      common_(static_cast<size_t>(options.beam - 1)) {
  std::iota(order_.begin(), order_.end(), 0);
}

int64_t BeamSearch::bytes(int64_t beam, int64_t tokens, int64_t ends) {
  // A vector that grows has up to twice the size that it needs, and the old one beside it while it is copied.
  constexpr int64_t kGrowing = 3;
  const int64_t nodes = kGrowing * (1 + ends) * beam * tokens * static_cast<int64_t>(sizeof(Node));
  const int64_t finished = beam * tokens * static_cast<int64_t>(sizeof(int32_t) + sizeof(float));
  return nodes + finished;
}

int64_t BeamSearch::step_bytes(int64_t beam, int64_t each) {
  return beam * each * static_cast<int64_t>(sizeof(Candidate));
}

void BeamSearch::advance(const Candidates& candidates) {
  if (must_end()) {
    end_all();
    return;
  }
  std::vector<Candidate> all;
  all.reserve(alive_.size() * static_cast<size_t>(candidates.each));
  for (size_t parent = 0; parent < alive_.size(); ++parent) {
    for (int64_t j = 0; j < candidates.each; ++j) {
      const auto at = static_cast<size_t>(places_[parent] * candidates.each + j);
      const float log_prob = candidates.log_probs[at];
      if (!std::isfinite(log_prob)) continue;
      const float of_model = candidates.of_model.empty() ? log_prob : candidates.of_model[at];
      all.push_back({alive_[parent].log_prob + log_prob, of_model, static_cast<int32_t>(parent),
                     candidates.tokens[at]});
    }
  }
  if (all.empty()) {
    done_ = true;
    return;
  }
  const size_t kept =
      std::min(all.size(), static_cast<size_t>((1 + ends_of(options_.rules)) * options_.beam));
  std::partial_sort(all.begin(), all.begin() + static_cast<int64_t>(kept), all.end(), better);
  all.resize(kept);
  ++length_;
  std::vector<Unfinished> alive;
  std::vector<int32_t> parents;
  for (const Candidate& candidate : all) {
    const bool is_full = static_cast<int64_t>(alive.size()) == options_.beam;
    nodes_.push_back(
        {alive_[static_cast<size_t>(candidate.parent)].last, candidate.token, candidate.of_token});
    const Unfinished next{static_cast<int32_t>(nodes_.size()) - 1, candidate.log_prob};
    const bool ends = is_end(options_.rules, candidate.token) || stops();
    if (!ends && is_full) {
      nodes_.pop_back();
    } else if (ends) {
      finished_.push_back(hypothesis(next));
    } else {
      alive.push_back(next);
      parents.push_back(places_[static_cast<size_t>(candidate.parent)]);
    }
  }
  rank_finished();
  alive_ = std::move(alive);
  place(parents);
  done_ = alive_.empty() || length_ >= options_.limit || cannot_improve();
  if (!done_ && must_end()) end_all();
}

void BeamSearch::rank_finished() {
  std::stable_sort(finished_.begin(), finished_.end(), ranks_before);
  if (static_cast<int64_t>(finished_.size()) > options_.beam)
    finished_.resize(static_cast<size_t>(options_.beam));
}

bool BeamSearch::must_end() const { return forces_end(options_.rules) && length_ + 1 >= options_.limit; }

void BeamSearch::end_all() {
  ++length_;
  for (const Unfinished& text : alive_) {
    nodes_.push_back({text.last, kForcedEnd.token, kForcedEnd.log_prob});
    finished_.push_back(hypothesis({static_cast<int32_t>(nodes_.size()) - 1, text.log_prob}));
  }
  rank_finished();
  alive_.clear();
  done_ = true;
}

std::vector<int32_t> BeamSearch::tokens_to(int32_t node) const {
  std::vector<int32_t> tokens;
  for (int32_t i = node; i >= 0; i = nodes_[static_cast<size_t>(i)].previous)
    tokens.push_back(nodes_[static_cast<size_t>(i)].token);
  std::ranges::reverse(tokens);
  return tokens;
}

bool BeamSearch::stops() const {
  return options_.rules != nullptr && options_.rules->has_stops() &&
         options_.rules->stop(options_.given, tokens_to(static_cast<int32_t>(nodes_.size()) - 1));
}

/// A text of length_ tokens.
Hypothesis BeamSearch::hypothesis(const Unfinished& text) const {
  Hypothesis result;
  result.score = text.log_prob / penalty_of(length_);
  result.tokens = tokens_to(text.last);
  for (int32_t i = text.last; i >= 0; i = nodes_[static_cast<size_t>(i)].previous)
    result.log_probs.push_back(nodes_[static_cast<size_t>(i)].log_prob);
  std::ranges::reverse(result.log_probs);
  for (const float log_prob : result.log_probs) result.log_prob += log_prob;
  return result;
}

void BeamSearch::place(const std::vector<int32_t>& parents) {
  constexpr int32_t kNone = -1;
  std::vector<int32_t> owner(static_cast<size_t>(options_.beam), kNone);  // by place: index in alive_
  places_.assign(parents.size(), kNone);
  const auto put = [&](size_t hypothesis, int32_t at) {
    owner[static_cast<size_t>(at)] = static_cast<int32_t>(hypothesis);
    places_[hypothesis] = at;
  };
  for (size_t i = 0; i < parents.size(); ++i) {
    if (owner[static_cast<size_t>(parents[i])] == kNone) put(i, parents[i]);
  }
  moved_.assign(static_cast<size_t>(options_.beam), 0);
  for (size_t i = 0; i < parents.size(); ++i) {
    if (places_[i] != kNone) continue;
    const std::vector<int32_t> common = common_with(parents[i]);
    int32_t best = kNone;  // the free place in which least is replaced
    for (int32_t at = 0; at < options_.beam; ++at) {
      const bool is_free = owner[static_cast<size_t>(at)] == kNone;
      if (is_free && (best == kNone || common[static_cast<size_t>(at)] > common[static_cast<size_t>(best)]))
        best = at;
    }
    put(i, best);
    moved_[static_cast<size_t>(best)] = static_cast<int32_t>(length_ - 1) - common[static_cast<size_t>(best)];
  }
  while (!owner.empty() && owner.back() == kNone) owner.pop_back();
  tokens_.assign(owner.size(), kPadId);
  parents_.resize(owner.size());
  std::iota(parents_.begin(), parents_.end(), 0);
  for (size_t i = 0; i < parents.size(); ++i) {
    tokens_[static_cast<size_t>(places_[i])] = nodes_[static_cast<size_t>(alive_[i].last)].token;
    parents_[static_cast<size_t>(places_[i])] = parents[i];
  }
  take_over();
}

std::vector<int32_t> BeamSearch::common_with(int32_t place) const {
  std::vector<int32_t> result(order_.size());
  const auto middle = static_cast<size_t>(std::ranges::find(order_, place) - order_.begin());
  const auto all = static_cast<int32_t>(length_ - 1);
  result[static_cast<size_t>(place)] = all;
  int32_t least = all;
  for (size_t i = middle; i + 1 < order_.size(); ++i) {
    least = std::min(least, common_[i]);
    result[static_cast<size_t>(order_[i + 1])] = least;
  }
  least = all;
  for (size_t i = middle; i > 0; --i) {
    least = std::min(least, common_[i - 1]);
    result[static_cast<size_t>(order_[i - 1])] = least;
  }
  return result;
}

void BeamSearch::take_over() {
  std::vector<size_t> index(order_.size());  // by place: where the place that it continues is in order_
  for (size_t i = 0; i < order_.size(); ++i) index[static_cast<size_t>(order_[i])] = i;
  const std::vector<size_t> before = index;
  for (size_t place = 0; place < parents_.size(); ++place)
    index[place] = before[static_cast<size_t>(parents_[place])];
  std::ranges::stable_sort(order_, {}, [&](int32_t place) { return index[static_cast<size_t>(place)]; });
  const std::vector<int32_t> were_common = common_;
  for (size_t i = 0; i < common_.size(); ++i) {
    const auto begin = were_common.begin() + static_cast<ptrdiff_t>(index[static_cast<size_t>(order_[i])]),
               end = were_common.begin() + static_cast<ptrdiff_t>(index[static_cast<size_t>(order_[i + 1])]);
    common_[i] = begin == end ? static_cast<int32_t>(length_ - 1) : *std::min_element(begin, end);
  }
}

/// True if no unfinished text can become better than the results so far. Its log-probability can only fall,
/// and its penalty is at most that of the longest text.
bool BeamSearch::cannot_improve() const {
  const auto wanted = static_cast<size_t>(std::min(options_.results, options_.beam));
  if (finished_.size() < wanted) return false;
  return finished_[wanted - 1].score >= alive_.front().log_prob / penalty_of(options_.limit);
}

std::vector<Hypothesis> BeamSearch::results() const {
  const auto count = static_cast<size_t>(options_.results);
  std::vector<Hypothesis> results = finished_;
  for (const Unfinished& text : alive_) {
    if (results.size() >= count) break;
    results.push_back(hypothesis(text));
  }
  if (results.size() > count) results.resize(count);
  return results;
}

SampleSearch::SampleSearch(int64_t samples, int64_t limit, const TextRules* rules,
                           std::span<const int32_t> given)
    : limit_(limit),
      rules_(rules),
      given_(given),
      ended_(static_cast<size_t>(samples)),
      hypotheses_(static_cast<size_t>(samples)),
      tokens_(static_cast<size_t>(samples)) {}

/// True if the text ends with its last token.
bool SampleSearch::ends(const std::vector<int32_t>& tokens) const {
  return is_end(rules_, tokens.back()) || std::ssize(tokens) >= limit_ ||
         (rules_ != nullptr && rules_->stop(given_, tokens));
}

bool SampleSearch::done() const { return std::ranges::all_of(ended_, std::identity()); }

void SampleSearch::advance(std::span<const Draw> draws) {
  for (size_t i = 0; i < hypotheses_.size(); ++i) {
    tokens_[i] = kPadId;
    if (ended_[i]) continue;
    const std::vector<int32_t>& tokens = hypotheses_[i].tokens;
    take(i, must_end(tokens) ? kForcedEnd : draws[i]);
    if (!ended_[i] && must_end(tokens)) take(i, kForcedEnd);
  }
}

bool SampleSearch::must_end(const std::vector<int32_t>& tokens) const {
  return forces_end(rules_) && std::ssize(tokens) + 1 >= limit_;
}

void SampleSearch::take(size_t sample, const Draw& draw) {
  Hypothesis& hypothesis = hypotheses_[sample];
  hypothesis.tokens.push_back(draw.token);
  hypothesis.log_probs.push_back(draw.log_prob);
  hypothesis.score = hypothesis.log_prob += draw.log_prob;
  tokens_[sample] = draw.token;
  ended_[sample] = ends(hypothesis.tokens);
}

Draw draw_token(const Candidates& candidates, const SampleOptions& options, PhiloxKey key, uint64_t position,
                uint64_t first) {
  const std::span<const float> log_probs = candidates.log_probs;
  const auto draw_of = [&](size_t i) {
    return Draw{candidates.tokens.empty() ? static_cast<int32_t>(i) : candidates.tokens[i], log_probs[i]};
  };
  const Draw likeliest =
      draw_of(static_cast<size_t>(std::ranges::max_element(log_probs) - log_probs.begin()));
  constexpr double kCold = 1e-300;  // division by a smaller temperature would overflow
  if (options.temperature < kCold) return likeliest;
  GumbelRace race(options.temperature, key, position, first, likeliest);
  const double least = options.min_p > 0
                           ? likeliest.log_prob + options.temperature * reproducible::log(options.min_p)
                           : -std::numeric_limits<double>::infinity();
  const auto enter = [&](size_t i) {
    if (log_probs[i] >= least) race.enter(draw_of(i));
  };
  if (options.top_p >= 1 && (options.top_k <= 0 || options.top_k >= std::ssize(log_probs))) {
    for (size_t i = 0; i < log_probs.size(); ++i) enter(i);
  } else {
    for (const int32_t i : allowed(log_probs, options)) enter(static_cast<size_t>(i));
  }
  return race.winner();
}

}  // namespace mtf
