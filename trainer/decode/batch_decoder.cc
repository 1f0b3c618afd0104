#include "trainer/decode/batch_decoder.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "trainer/memory/need.h"
#include "trainer/session/model_inputs.h"

namespace mtf {
namespace {

/// The number of hypotheses from which reading the weights costs less than the products with them, and that with which a thread
/// is fastest: more of them have caches and logits beyond the processor's caches.
constexpr int64_t kLeastHypotheses = 32, kBestHypotheses = 80;

/// True if batches can be decoded independently of each other: no other process or device takes part in a step.
bool are_independent(const Session& session) {
  return session.backend->is_host() && session.layouts.mesh.size() == 1 && session.profile == nullptr;
}

}  // namespace

DecodeShares decode_shares(const Session& session, const DecodeOptions& options, int64_t texts) {
  const int threads = static_cast<int>(kernel_threads(session));
  if (!are_independent(session)) {
    // The number of processes does not count: which texts share a batch, and so each bit, is the same for any.
    const LayoutMap activation(session.layouts.mesh, session.layouts.activation);
    const bool refills = !session.backend->is_host() || activation.splits(std::string(kBatch));
    return {1, threads, options.batch_size, refills};
  }
  const int64_t together = std::min(options.batch_size, texts), hypotheses = options.hypotheses();
  const int64_t decoders = std::clamp<int64_t>(together * hypotheses / kLeastHypotheses, 1, threads);
  const int64_t best = std::max<int64_t>(1, kBestHypotheses / hypotheses);
  return {static_cast<int>(decoders), static_cast<int>(threads / decoders),
          std::min(std::max<int64_t>(1, options.batch_size / decoders), best)};
}

/// Some texts, longest texts first, of which decoders take one batch after the other. Blank texts are in no batch.
class BatchDecoder::Batches {
 public:
  /// `blank`: the result of a blank text.
  Batches(const std::vector<GivenText>& texts, const Written& blank, const DecodeShares& shares,
          const std::function<bool()>& stop)
      : texts_(texts),
        batch_size_(static_cast<size_t>(shares.batch_size)),
        taken_at_once_(shares.refills ? texts.size() : batch_size_),
        stop_(stop),
        written_(texts.size(), blank) {
    for (size_t i = 0; i < texts.size(); ++i) {
      if (!texts[i].is_blank) order_.push_back(i);
    }
    std::ranges::stable_sort(order_, std::ranges::greater{}, [&](size_t i) { return texts[i].length(); });
  }

  /// Decodes texts until none is left, or until a decoder has failed or `stop` has returned true.
  void decode_with(Decoder& decoder) {
    for (std::span<const size_t> batch = take(); !batch.empty(); batch = take()) {
      std::vector<GivenText> texts;
      for (const size_t i : batch) texts.push_back(texts_[i]);
      std::optional<std::vector<Written>> results =
          decoder.decode(texts, batch_size_, [this] { return stops(); });
      if (!results) return;
      for (size_t i = 0; i < batch.size(); ++i) written_[batch[i]] = std::move((*results)[i]);
    }
  }
  void fail(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  /// Rethrows the first error.
  std::optional<std::vector<Written>> result() {
    if (error_) std::rethrow_exception(error_);
    if (stopped_) return std::nullopt;
    return std::move(written_);
  }

 private:
  /// Returns the numbers of the next texts.
  std::span<const size_t> take() {
    const std::lock_guard lock(mutex_);
    const size_t begin = taken_, count = std::min(taken_at_once_, order_.size() - begin);
    taken_ += count;
    return std::span(order_).subspan(begin, count);
  }
  bool stops() {
    const std::lock_guard lock(mutex_);
    stopped_ = stopped_ || (!error_ && stop_ && stop_());
    return stopped_ || error_;
  }

  const std::vector<GivenText>& texts_;
  const size_t batch_size_, taken_at_once_;
  const std::function<bool()>& stop_;
  std::vector<size_t> order_;  ///< numbers of the texts that are not blank
  std::vector<Written> written_;
  std::mutex mutex_;  ///< protects the following
  size_t taken_ = 0;
  bool stopped_ = false;
  std::exception_ptr error_;
};

void BatchDecoder::make_workers(const DecodeShares& shares) {
  const auto count = static_cast<size_t>(shares.decoders);
  if (workers_.size() == count) return;
  workers_.clear();
  const DecodeEnvironment& environment = programs_.environment();
  while (workers_.size() < count) {
    Worker next;
    if (!workers_.empty()) next.programs = std::make_unique<DecodePrograms>(environment);
    next.decoder = std::make_unique<Decoder>(next.programs ? *next.programs : programs_, weights_,
                                             shares.options_of(options_), shares.threads);
    workers_.push_back(std::move(next));
  }
}

std::optional<std::vector<Written>> BatchDecoder::decode(const std::vector<GivenText>& texts,
                                                         const std::function<bool()>& stop) {
  const Session& session = programs_.environment().session;
  const int64_t read = std::ranges::count(texts, false, &GivenText::is_blank);
  const DecodeShares shares = decode_shares(session, options_, read);
  const Written blank(static_cast<size_t>(options_.sampling() ? options_.hypotheses() : 1));
  Batches batches(texts, blank, shares, stop);
  make_workers(shares);
  const auto decode = [&](Decoder& decoder) {
    try {
      session.backend->prepare_thread();
      batches.decode_with(decoder);
    } catch (...) {
      batches.fail(std::current_exception());
    }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t number = 1; number < workers_.size(); ++number) {
      threads.emplace_back([&, number] { decode(*workers_[number].decoder); });
    }
    decode(*workers_[0].decoder);
  }
  return batches.result();
}

}  // namespace mtf
