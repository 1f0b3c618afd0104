#include "trainer/decode/decoder.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <variant>

namespace mtf {

/// The decoding of one batch of texts, which are the rows of the programs. Finished texts are removed when
/// the others fit into a smaller program.
class Decoder::Batch {
 public:
  Batch(Decoder& decoder, std::span<const GivenText> texts)
      : decoder_(decoder), options_(decoder.options_), plan_(decoder.planner_.first(texts)) {
    for (const GivenText& given : texts) {
      Row row{&given, rows_.size(), static_cast<int64_t>(given.prefix.size()), search_for(given)};
      rows_.push_back(std::move(row));
    }
    results_.resize(texts.size());
  }

  std::vector<Written> run() {
    stage_ = &decoder_.stage(plan_, nullptr);
    read_prefixes();
    while (true) {
      collect_done();
      if (rows_.empty()) return std::move(results_);
      fit_programs();
      step();
    }
  }

 private:
  using Search = std::variant<BeamSearch, SampleSearch>;
  struct Row {
    const GivenText* given;
    size_t index;      ///< index of the result
    int64_t position;  ///< position of the last token that was read
    Search search;
    int64_t place = 0;  ///< row of the text in the programs
  };

  Search search_for(const GivenText& given) const {
    const int64_t limit = decoder_.planner_.limit(given);
    if (options_.is_beam())
      return BeamSearch({options_.beam_size, options_.length_penalty, limit, options_.n_best});
    return SampleSearch(options_.hypotheses(), limit);
  }

  void read_prefixes() {
    const DecodeSizes& sizes = plan_.sizes;
    std::vector<int32_t> inputs(static_cast<size_t>(sizes.texts * sizes.inputs)),
        prefix(static_cast<size_t>(sizes.texts * sizes.prefix)), position(static_cast<size_t>(sizes.texts)),
        prompt(static_cast<size_t>(sizes.texts));
    for (Row& row : rows_) {
      row.place = static_cast<int64_t>(row.index);
      std::ranges::copy(row.given->inputs, inputs.begin() + row.place * sizes.inputs);
      std::ranges::copy(row.given->prefix, prefix.begin() + row.place * sizes.prefix + 1);
      position[row.index] = static_cast<int32_t>(row.position);
      prompt[row.index] = static_cast<int32_t>(row.given->prompt);
    }
    Executor& prefill = stage_->prefill();
    prefill.feed("inputs", inputs.data());
    prefill.feed("prefix", prefix.data());
    prefill.feed("position", position.data());
    prefill.feed("prompt", prompt.data());
    prefill.run(0);
    advance(prefill, 1);
    plan_.sizes.prefix = 1;  // the programs of the steps do not depend on the prefix
  }

  void step() {
    const DecodeSizes& sizes = plan_.sizes;
    const size_t hypotheses = static_cast<size_t>(sizes.texts * sizes.beam);
    std::vector<int32_t> token(hypotheses), parent(hypotheses), position(static_cast<size_t>(sizes.texts));
    for (Row& row : rows_) {
      const auto first = row.place * sizes.beam;
      position[static_cast<size_t>(row.place)] = static_cast<int32_t>(++row.position);
      std::visit([&](const auto& search) { std::ranges::copy(search.tokens(), token.begin() + first); },
                 row.search);
      if (const auto* beam = std::get_if<BeamSearch>(&row.search)) {
        std::iota(parent.begin() + first, parent.begin() + first + sizes.beam, 0);
        std::ranges::copy(beam->parents(), parent.begin() + first);
      }
    }
    Executor& program = stage_->step();
    program.feed("token", token.data());
    program.feed("position", position.data());
    program.feed("parent", parent.data());
    program.run(0);
    advance(program, sizes.beam);
  }

  static void check_finite(float log_prob) {
    if (!std::isnan(log_prob)) return;
    throw Error(ErrorKind::kDiverged, "the model's probabilities are not numbers (NaN)",
                "weights of an earlier checkpoint");
  }

  /// Passes the program's outputs to the searches. `hypotheses` is the number of hypotheses per text in them.
  void advance(const Executor& program, int64_t hypotheses) {
    if (plan_.answer == DecodeAnswer::kLogProbs) return draw(program.fetch("log_probs"), hypotheses);
    const HostTensor log_probs = program.fetch("log_probs"), tokens = program.fetch("tokens");
    const int64_t each = plan_.candidates;
    for (Row& row : rows_) {
      const auto first = static_cast<size_t>(row.place * hypotheses * each),
                 count = static_cast<size_t>(hypotheses * each);
      const Candidates candidates{
          each, {log_probs.data<float>() + first, count}, {tokens.data<int32_t>() + first, count}};
      check_finite(candidates.log_probs[0]);
      if (auto* beam = std::get_if<BeamSearch>(&row.search)) {
        beam->advance(candidates);
      } else {
        const Draw likeliest{candidates.tokens[0], candidates.log_probs[0]};
        std::get<SampleSearch>(row.search).advance({&likeliest, 1});
      }
    }
  }

  void draw(const HostTensor& log_probs, int64_t hypotheses) {
    const SampleMethod& method = *options_.sampling();
    const auto vocabulary = static_cast<size_t>(log_probs.shape[log_probs.shape.rank() - 1].size);
    std::vector<Draw> draws(static_cast<size_t>(method.samples));
    for (Row& row : rows_) {
      for (int64_t sample = 0; sample < method.samples; ++sample) {
        const int64_t hypothesis = row.place * hypotheses + std::min(sample, hypotheses - 1);
        const uint64_t number = row.given->number * static_cast<uint64_t>(method.samples);
        draws[static_cast<size_t>(sample)] =
            draw_token({log_probs.data<float>() + static_cast<size_t>(hypothesis) * vocabulary, vocabulary},
                       {method.temperature, method.top_k, method.top_p}, decoder_.key_,
                       static_cast<uint64_t>(row.position), number + static_cast<uint64_t>(sample));
      }
      check_finite(draws[0].log_prob);
      std::get<SampleSearch>(row.search).advance(draws);
    }
  }

  void collect_done() {
    const auto is_done = [](const Row& row) {
      return std::visit([](const auto& search) { return search.done(); }, row.search);
    };
    for (const Row& row : rows_) {
      if (!is_done(row)) continue;
      const auto* beam = std::get_if<BeamSearch>(&row.search);
      results_[row.index] = beam ? beam->results() : std::get<SampleSearch>(row.search).results();
    }
    std::erase_if(rows_, is_done);
  }

  /// Switches to programs for the remaining texts and their current lengths, if these have other sizes.
  void fit_programs() {
    DecodePlan next = plan_;
    next.sizes.texts = text_bucket(static_cast<int64_t>(rows_.size()), decoder_.programs_.environment());
    int64_t needed = 0;
    for (const Row& row : rows_) needed = std::max(needed, row.position + 2);
    if (needed > plan_.sizes.memory) next.sizes.memory = decoder_.planner_.memory(needed);
    if (next.key() == plan_.key()) return;
    std::vector<int64_t> places;
    for (const Row& row : rows_) places.push_back(row.place);
    const std::vector<MovedRow> moved = fitted_rows(places, plan_.sizes.texts, next.sizes.texts,
                                                    text_parts(decoder_.programs_.environment()));
    for (Row& row : rows_) row.place = std::ranges::lower_bound(moved, row.place, {}, &MovedRow::from)->to;
    DecodeStage& stage = decoder_.stage(next, stage_);
    stage.take(*stage_, moved, needed - 1);
    stage_ = &stage;
    plan_ = next;
  }

  Decoder& decoder_;
  const DecodeOptions& options_;
  std::vector<Row> rows_;  ///< texts that are not finished
  std::vector<Written> results_;
  DecodePlan plan_;
  DecodeStage* stage_ = nullptr;
};

Decoder::Decoder(DecodePrograms& programs, VariableStore& weights, const DecodeOptions& options, int threads)
    : options_(options),
      programs_(programs),
      weights_(weights),
      planner_(programs.environment(), options_),
      memory_(programs.environment().session, threads),
      key_(random_key("sampling", static_cast<uint64_t>(programs.environment().session.config.run.seed))) {}

std::vector<Written> Decoder::decode(std::span<const GivenText> texts) {
  std::vector<Written> written;
  while (!texts.empty()) {
    const size_t count = planner_.fitting(texts);
    std::ranges::move(Batch(*this, texts.first(count)).run(), std::back_inserter(written));
    texts = texts.subspan(count);
  }
  return written;
}

DecodeStage& Decoder::stage(const DecodePlan& plan, const DecodeStage* before) {
  const DecodePlan::Key key = plan.key();
  std::erase(recent_, key);
  const auto known = stages_.find(key);
  const bool is_new = known == stages_.end();
  if (is_new || (before == nullptr && !known->second->has_prefill())) {
    DecodeMemory::Need need;
    int64_t own = 0;
    const auto add = [&](const DecodeProgram& program) {
      need.add(program);
      own += program.input_bytes + program.own_bytes;
    };
    if (is_new) add(programs_.step(plan));
    if (before == nullptr) add(programs_.prefill(plan));
    make_room(own, need, DecodeStage::half_of(plan, before), before != nullptr);
    memory_.reserve(need);
  }
  if (is_new) stages_.emplace(key, std::make_unique<DecodeStage>(programs_, weights_, plan, memory_, before));
  recent_.push_back(key);
  return *stages_.at(key);
}

void Decoder::make_room(int64_t bytes, const DecodeMemory::Need& need, size_t half, bool is_latest_used) {
  const Session& session = programs_.environment().session;
  // Several processes must keep the same stages, but may count different bytes.
  const bool counts = hosting_of(session.config).processes == 1;
  const size_t used = is_latest_used ? 1 : 0,
               most = counts && memory_.grows(half, need) ? used : kept_stages(session) - 1;
  for (const DecodePlan::Key& key : recent_) bytes += stages_.at(key)->bytes();
  while (recent_.size() > used && (recent_.size() > most || (counts && bytes > kKeptStageBytes))) {
    bytes -= stages_.at(recent_.front())->bytes();
    stages_.erase(recent_.front());
    recent_.erase(recent_.begin());
  }
}

}  // namespace mtf
