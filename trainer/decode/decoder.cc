#include "trainer/decode/decoder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <variant>

namespace mtf {
namespace {

/// Texts enter a batch when this part of its places is free: to read a few at a time costs more for each of them.
constexpr size_t kPartThatEnters = 4;

}  // namespace

/// The decoding of texts, some at a time, which are the rows of the programs. Where texts have ended, others enter; when none are
/// left to do so, the programs become smaller.
class Decoder::Batch {
 public:
  Batch(Decoder& decoder, std::span<const GivenText> texts, size_t batch_size)
      : decoder_(decoder),
        options_(decoder.options_),
        rules_(decoder.planner_.rules()),
        parts_(text_parts(decoder.programs_.environment())),
        texts_(texts),
        batch_size_(batch_size),
        results_(texts.size()) {}

  std::optional<std::vector<Written>> run(const std::function<bool()>& stop) {
    while (true) {
      collect_done();
      if (const size_t count = entering(); count > 0) {
        if (stop && stop()) return std::nullopt;
        if (rows_.empty()) {
          start(count);
        } else {
          enter(count);
        }
        continue;
      }
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
    const LengthPenalty penalty = options_.penalty_of_length();
    if (options_.is_beam())
      return BeamSearch(
          {options_.beam_size, penalty.alpha, penalty.plus, limit, options_.n_best, &rules_, given.prefix});
    return SampleSearch(options_.hypotheses(), limit, &rules_, given.prefix);
  }

  /// The texts that nobody has read yet.
  std::span<const GivenText> waiting() const { return texts_.subspan(read_); }

  int64_t bucket(size_t texts) const {
    return text_bucket(static_cast<int64_t>(texts), decoder_.programs_.environment());
  }

  /// The first of the waiting texts, at most `most`, whose inputs fit into the programs.
  size_t enterable(size_t most) const {
    const auto some = waiting().first(std::min(most, waiting().size()));
    const auto is_too_long = [this](const GivenText& given) {
      return std::ssize(given.inputs) > plan_.sizes.inputs;
    };
    return rows_.empty() ? some.size()
                         : static_cast<size_t>(std::ranges::find_if(some, is_too_long) - some.begin());
  }

  /// Returns how many texts are read now, before the next step.
  size_t entering() const {
    if (waiting().empty()) return 0;
    const size_t free = batch_size_ - rows_.size(),
                 least = rows_.empty() ? 1 : std::max<size_t>(1, batch_size_ / kPartThatEnters);
    if (free < std::min(least, waiting().size())) return 0;
    size_t count = enterable(free), longest = 0;
    for (const Row& row : rows_) longest = std::max(longest, row.given->length());
    for (const GivenText& given : waiting().first(count)) longest = std::max(longest, given.length());
    const size_t together = decoder_.planner_.fitting(longest);
    count = std::min(count, together - std::min(together, rows_.size()));
    if (count == waiting().size() || rows_.empty()) return count;
    if (count < least) return 0;
    // Programs for more texts than there are would compute for nothing.
    while (static_cast<int64_t>(count) > parts_ && bucket(count) > static_cast<int64_t>(count)) --count;
    return count;
  }

  /// Reads the first texts of a batch.
  void start(size_t count) {
    plan_ = decoder_.planner_.first(waiting().first(count));
    stage_ = &decoder_.stage(plan_, nullptr);
    for (size_t i = 0; i < count; ++i) add_row(static_cast<int64_t>(i));
    read(*stage_, rows_);
    plan_.sizes.prefix = 1;  // the programs of the steps do not depend on the prefix
  }

  /// Reads texts that enter the batch, in programs of their own beside it: at most `count`, but those for which there is no
  /// place in their part.
  void enter(size_t count) {
    DecodePlan plan = decoder_.planner_.first(waiting().first(count)), next = plan_;
    int64_t inputs = plan.sizes.inputs;
    for (const Row& row : rows_) inputs = std::max(inputs, std::ssize(row.given->inputs));
    next.sizes.texts = std::max(plan_.sizes.texts, bucket(rows_.size() + count));
    if (inputs > 0) inputs = length_bucket(inputs, decoder_.planner_.longest());
    const int64_t memory = std::max(plan.sizes.memory, decoder_.planner_.memory(needed()));
    // Caches become shorter when all of them move anyway.
    const bool moves = inputs < plan_.sizes.inputs || memory > plan_.sizes.memory;
    next.sizes.inputs = std::min(inputs, plan_.sizes.inputs);
    if (moves) decoder_.planner_.set_memory(next, memory);
    move_to(next);

    plan.sizes.inputs = plan_.sizes.inputs;
    decoder_.planner_.set_memory(plan, plan_.sizes.memory);
    DecodeStage& stage = decoder_.entering_stage(plan, *stage_);
    const std::vector<MovedRow> moved =
        added_rows(static_cast<int64_t>(count), places(), plan.sizes.texts, plan_.sizes.texts, parts_);
    const size_t first = rows_.size();
    for (const MovedRow& row : moved) add_row(row.from);
    const std::span<Row> rows = std::span(rows_).subspan(first);
    read(stage, rows);
    stage_->take(stage, moved, plan.sizes.prefix);
    for (size_t i = 0; i < rows.size(); ++i) rows[i].place = moved[i].to;
  }

  /// Makes a row of the next text, at a place in the programs that read it.
  void add_row(int64_t place) {
    const GivenText& given = texts_[read_];
    rows_.push_back({&given, read_++, std::ssize(given.prefix), search_for(given), place});
  }

  /// Reads the texts of `rows`, and passes what is predicted to their searches.
  void read(DecodeStage& stage, std::span<Row> rows) {
    const DecodeSizes& sizes = stage.plan().sizes;
    std::vector<int32_t> inputs(static_cast<size_t>(sizes.texts * sizes.inputs)),
        prefix(static_cast<size_t>(sizes.texts * sizes.prefix)), position(static_cast<size_t>(sizes.texts)),
        prompt(static_cast<size_t>(sizes.texts));
    for (const Row& row : rows) {
      const auto place = static_cast<size_t>(row.place);
      std::ranges::copy(row.given->inputs, inputs.begin() + row.place * sizes.inputs);
      std::ranges::copy(row.given->prefix, prefix.begin() + row.place * sizes.prefix + 1);
      position[place] = static_cast<int32_t>(row.position);
      prompt[place] = static_cast<int32_t>(row.given->prompt);
    }
    Executor& prefill = stage.prefill();
    prefill.feed("inputs", inputs.data());
    prefill.feed("prefix", prefix.data());
    prefill.feed("position", position.data());
    prefill.feed("prompt", prompt.data());
    prefill.run(0);
    advance(prefill, 1, rows);
  }

  void step() {
    const DecodeSizes& sizes = plan_.sizes;
    const size_t hypotheses = static_cast<size_t>(sizes.texts * sizes.beam);
    std::vector<int32_t> token(hypotheses), parent(hypotheses), common(hypotheses),
        position(static_cast<size_t>(sizes.texts)), shared_prefix(static_cast<size_t>(sizes.texts));
    for (Row& row : rows_) {
      const auto first = row.place * sizes.beam;
      const auto at = static_cast<int32_t>(++row.position);
      position[static_cast<size_t>(row.place)] = at;
      int32_t& shared = shared_prefix[static_cast<size_t>(row.place)];
      shared = static_cast<int32_t>(row.given->prefix.size()) + 1;  // samples: what the prefill has read
      std::visit([&](const auto& search) { std::ranges::copy(search.tokens(), token.begin() + first); },
                 row.search);
      if (const auto* beam = std::get_if<BeamSearch>(&row.search)) {
        std::iota(parent.begin() + first, parent.begin() + first + sizes.beam, 0);
        std::ranges::copy(beam->parents(), parent.begin() + first);
        std::ranges::transform(beam->moved(), common.begin() + first,
                               [at](int32_t moved) { return at - moved; });
        shared = at - beam->apart();
      }
    }
    Executor& program = stage_->step();
    program.feed("token", token.data());
    program.feed("position", position.data());
    program.feed("parent", parent.data());
    program.feed("common", common.data());
    program.feed("shared_prefix", shared_prefix.data());
    program.run(0);
    advance(program, sizes.beam, rows_);
  }

  static void check_finite(float log_prob) {
    if (!std::isnan(log_prob)) return;
    throw Error(ErrorKind::kDiverged, "the model's probabilities are not numbers (NaN)",
                "weights of an earlier checkpoint");
  }

  /// Passes the program's outputs to the searches. `hypotheses` is the number of hypotheses per text in them.
  void advance(const Executor& program, int64_t hypotheses, std::span<Row> rows) {
    const HostTensor log_probs = program.fetch("log_probs");
    std::optional<HostTensor> tokens;
    if (plan_.answer == DecodeAnswer::kCandidates) tokens = program.fetch("tokens");
    const int64_t each = log_probs.shape[log_probs.shape.rank() - 1].size;
    const auto candidates = [&](const Row& row, int64_t hypothesis, int64_t count) {
      const auto first = static_cast<size_t>((row.place * hypotheses + hypothesis) * each),
                 size = static_cast<size_t>(count * each);
      Candidates some{each, {log_probs.data<float>() + first, size}, {}};
      if (tokens) some.tokens = {tokens->data<int32_t>() + first, size};
      return some;
    };
    // A beam has places without a hypothesis.
    const int64_t checked = options_.is_beam() ? 1 : hypotheses;
    for (const Row& row : rows) {
      for (int64_t h = 0; h < checked; ++h) check_finite(candidates(row, h, 1).log_probs[0]);
    }
    if (options_.is_beam()) {
      for (Row& row : rows) advance(row, candidates(row, 0, hypotheses));
      return;
    }
    std::optional<HostTensor> totals;
    if (plan_.gives_total) totals = program.fetch("total");
    const int64_t samples = options_.hypotheses();
    std::vector<Draw> draws(rows.size() * static_cast<size_t>(samples));
    auto draw_one = [&](int64_t i, int) {
      const Row& row = rows[static_cast<size_t>(i / samples)];
      const int64_t sample = i % samples, hypothesis = std::min(sample, hypotheses - 1);
      const float total = totals ? totals->data<float>()[row.place * hypotheses + hypothesis] : 0;
      draws[static_cast<size_t>(i)] = draw(row, sample, candidates(row, hypothesis, 1), total);
    };
    if (plan_.answer == DecodeAnswer::kLogProbs) {
      decoder_.drawers().run(std::ssize(draws), draw_one);
    } else {
      for (int64_t i = 0; i < std::ssize(draws); ++i) draw_one(i, 0);
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto first = i * static_cast<size_t>(samples);
      std::get<SampleSearch>(rows[i].search)
          .advance(std::span(draws).subspan(first, static_cast<size_t>(samples)));
    }
  }

  /// Passes the candidates of its hypotheses to the beam search of a text.
  void advance(Row& row, Candidates candidates) const {
    auto& search = std::get<BeamSearch>(row.search);
    std::vector<float> log_probs;
    if (rules_.changes_candidates()) {
      candidates.of_model = candidates.log_probs;
      log_probs.assign(candidates.log_probs.begin(), candidates.log_probs.end());
      candidates.log_probs = log_probs;
      const auto each = static_cast<size_t>(candidates.each);
      for (size_t i = 0; i < search.places().size(); ++i) {
        const size_t first = static_cast<size_t>(search.places()[i]) * each;
        apply_rules(row, search.text(i), candidates.tokens.subspan(first, each),
                    std::span(log_probs).subspan(first, each), 0);
      }
    }
    search.advance(candidates);
  }

  /// Draws the next token of a sample, or takes the likeliest one. `total`: see TextRules::apply.
  Draw draw(const Row& row, int64_t sample, Candidates candidates, float total) const {
    const std::span<const float> of_model = candidates.log_probs;
    std::vector<float> log_probs;
    if (rules_.changes_candidates()) {
      log_probs.assign(of_model.begin(), of_model.end());
      candidates.log_probs = log_probs;
      apply_rules(row, std::get<SampleSearch>(row.search).text(sample), candidates.tokens, log_probs, total);
    }
    SampleOptions how{.temperature = 0};
    uint64_t first = 0;
    if (const SampleMethod* method = options_.sampling()) {
      how = {method->temperature, method->top_k, method->top_p, method->min_p};
      const auto number =
          row.given->number * static_cast<uint64_t>(options_.hypotheses()) + static_cast<uint64_t>(sample);
      first = number * static_cast<uint64_t>(decoder_.planner_.vocabulary());
    }
    Draw draw = draw_token(candidates, how, decoder_.key_, static_cast<uint64_t>(row.position), first);
    const auto index = candidates.tokens.empty()
                           ? draw.token
                           : std::ranges::find(candidates.tokens, draw.token) - candidates.tokens.begin();
    draw.log_prob = of_model[static_cast<size_t>(index)];
    return draw;
  }

  /// Applies the rules to the candidates of a hypothesis, of which `written` was written.
  void apply_rules(const Row& row, std::span<const int32_t> written, std::span<const int32_t> tokens,
                   std::span<float> log_probs, float total) const {
    std::vector<int32_t> text = row.given->prefix;
    text.insert(text.end(), written.begin(), written.end());
    rules_.apply(text, written.size(), tokens, log_probs, total);
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
    if (enterable(1) == 0) next.sizes.texts = bucket(rows_.size());
    if (needed() > plan_.sizes.memory) decoder_.planner_.set_memory(next, decoder_.planner_.memory(needed()));
    move_to(next);
  }

  /// The tokens that the caches must hold after the next step.
  int64_t needed() const {
    int64_t tokens = 0;
    for (const Row& row : rows_) tokens = std::max(tokens, row.position + 2);
    return tokens;
  }

  std::vector<int64_t> places() const {
    std::vector<int64_t> places;
    for (const Row& row : rows_) places.push_back(row.place);
    return places;
  }

  /// Moves the rows to programs of other sizes, unless they have these.
  void move_to(const DecodePlan& next) {
    if (next.key() == plan_.key()) return;
    const std::vector<MovedRow> moved = fitted_rows(places(), plan_.sizes.texts, next.sizes.texts, parts_);
    for (Row& row : rows_) row.place = std::ranges::find(moved, row.place, &MovedRow::from)->to;
    DecodeStage& stage = decoder_.stage(next, stage_);
    stage.take(*stage_, moved, needed() - 1);
    stage_ = &stage;
    plan_ = next;
  }

  Decoder& decoder_;
  const DecodeOptions& options_;
  const TextRules& rules_;
  const int64_t parts_;  ///< into which the layout splits the texts
  const std::span<const GivenText> texts_;
  const size_t batch_size_;
  size_t read_ = 0;        ///< texts that were read
  std::vector<Row> rows_;  ///< those that are not finished
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

std::optional<std::vector<Written>> Decoder::decode(std::span<const GivenText> texts, size_t batch_size,
                                                    const std::function<bool()>& stop) {
  return Batch(*this, texts, batch_size).run(stop);
}

ThreadPool& Decoder::drawers() {
  if (memory_.backend.is_host()) return memory_.workspace.pool;
  if (drawers_ == nullptr)
    drawers_ = std::make_unique<ThreadPool>(thread_count(programs_.environment().session.config), [] {});
  return *drawers_;
}

DecodeStage& Decoder::stage(const DecodePlan& plan, const DecodeStage* before) {
  const CachePlace place = before != nullptr ? CachePlace::after(*before, plan) : CachePlace();
  return stage(plan, StageUse::kSteps, place, before == nullptr, before != nullptr);
}

DecodeStage& Decoder::entering_stage(const DecodePlan& plan, const DecodeStage& running) {
  DecodeStage& entering = stage(plan, StageUse::kEnters, CachePlace::beside(running), true, true);
  // The batch goes on at its stage.
  std::swap(recent_.back(), *std::ranges::find(recent_, key_of(running.plan(), StageUse::kSteps, {})));
  return entering;
}

DecodeStage& Decoder::stage(const DecodePlan& plan, StageUse use, const CachePlace& place, bool reads,
                            bool keeps) {
  const StageKey key = key_of(plan, use, place);
  std::erase(recent_, key);
  const auto known = stages_.find(key);
  const bool is_new = known == stages_.end();
  if (is_new || (reads && !known->second->has_prefill())) {
    DecodeMemory::Need need;
    int64_t own = 0;
    const auto add = [&](const DecodeProgram& program) {
      need.add(program);
      own += program.input_bytes + program.own_bytes;
    };
    if (is_new && use == StageUse::kSteps) add(programs_.step(plan));
    if (reads) add(programs_.prefill(plan));
    make_room(own, need, place.half, keeps);
    memory_.reserve(need);
  }
  if (is_new)
    stages_.emplace(key, std::make_unique<DecodeStage>(programs_, weights_, plan, memory_, place, use));
  recent_.push_back(key);
  return *stages_.at(key);
}

void Decoder::make_room(int64_t bytes, const DecodeMemory::Need& need, size_t half, bool is_latest_used) {
  const Session& session = programs_.environment().session;
  // Several processes must keep the same stages, but may count different bytes.
  const bool counts = hosting_of(session.config).processes == 1;
  const size_t used = is_latest_used ? 1 : 0,
               most = counts && memory_.grows(half, need) ? used : kept_stages(session) - 1;
  for (const StageKey& key : recent_) bytes += stages_.at(key)->bytes();
  while (recent_.size() > used && (recent_.size() > most || (counts && bytes > kKeptStageBytes))) {
    bytes -= stages_.at(recent_.front())->bytes();
    stages_.erase(recent_.front());
    recent_.erase(recent_.begin());
  }
}

}  // namespace mtf
