#include "data/text/epoch_source.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "data/draws.h"
#include "engine/base/check.h"

namespace mtf {
namespace {

/// Lets other threads run before this one and those that it starts.
void give_way() {
  constexpr int kLeastPriority = 19;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kLeastPriority);
}

/// Thrown to end what is no longer needed.
struct NoLongerNeeded {};

/// Ends the work when `stop` is requested.
TextProgress until(const std::stop_token& stop) {
  return [stop](TextStage, int64_t, int64_t) {
    if (stop.stop_requested()) throw NoLongerNeeded();
  };
}

}  // namespace

EpochSource::EpochSource(OpenEpoch open, PhiloxKey key, const TextProgress& progress)
    : open_(std::move(open)), key_(key) {
  EpochRows rows = open_(0, progress);
  bytes_of_making_ = rows.bytes_of_making;
  first_ = epochs_.emplace(0, std::move(rows)).first->second.source;
}

EpochSource::~EpochSource() {
  if (ahead_) ahead_->stop.request_stop();
}

void EpochSource::begin_stream(std::optional<int64_t> end, const std::stop_token& stop) const {
  const std::lock_guard lock(mutex_);
  last_.reset();
  if (end) last_ = (*end - 1) / examples();
  stop_ = stop;
}

void EpochSource::read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const {
  first_->read(rows, slices);
}

void EpochSource::read_training(std::span<const int64_t> examples, std::span<const int64_t> epochs,
                                std::span<const FeatureSlice> slices) const {
  std::shared_ptr<const Source> rows;
  std::vector<FeatureSlice> to(slices.begin(), slices.end());
  for (size_t i = 0; i + 1 < examples.size(); ++i) {
    if (i == 0 || epochs[i] != epochs[i - 1]) rows = epoch_rows(epochs[i]);
    const int64_t row = row_of(examples[i], epochs[i], rows->examples());
    const std::array pair = {row, row}, times = {epochs[i], epochs[i]};
    rows->read_training(pair, times, to);
    for (size_t f = 0; f < to.size(); ++f) to[f].output += to[f].bytes(features()[f]);
  }
}

int64_t EpochSource::row_of(int64_t example, int64_t epoch, int64_t rows) const {
  MTF_CHECK(example >= 0 && example < examples(), "example {} of {}", example, examples());
  const double shift = Draws(key_, 0, epoch).uniform();
  const double row = std::floor((static_cast<double>(example) + shift) * static_cast<double>(rows) /
                                static_cast<double>(examples()));
  return std::min(static_cast<int64_t>(row), rows - 1);
}

void EpochSource::check_aligned(const Mark& mark) const {
  throw Error(ErrorKind::kConfig, mark, "inputs and targets whose tokens are drawn do not stay aligned",
              "no `sampling`, which `model.type: aligned` does without");
}

std::shared_ptr<const Source> EpochSource::epoch_rows(int64_t epoch) const {
  const std::lock_guard lock(mutex_);
  auto found = epochs_.find(epoch);
  if (found == epochs_.end()) {
    found = epochs_.emplace(epoch, take(epoch)).first;
    forget_before(epoch - 1);
  }
  const bool is_next_known = epochs_.contains(epoch + 1) || (ahead_ && ahead_->epoch == epoch + 1);
  const bool is_last = last_ && epoch >= *last_;
  if (!is_next_known && !is_last) make_ahead(epoch + 1);
  return found->second.source;
}

/// Returns the epoch, which was made ahead, or makes it.
EpochRows EpochSource::take(int64_t epoch) const {
  if (ahead_ && ahead_->epoch == epoch) {
    std::optional<Ahead> ahead = std::exchange(ahead_, std::nullopt);
    const std::stop_callback end_with_reader(stop_, [&ahead] { ahead->stop.request_stop(); });
    try {
      return ahead->rows.get();
    } catch (const Error&) {
      // It failed long ago: what was in the way, such as a full disk, may be gone.
    }
  }
  return open_(epoch, until(stop_));
}

void EpochSource::make_ahead(int64_t epoch) const {
  if (ahead_) ahead_->stop.request_stop();
  std::stop_source stop;
  const auto make = [this, epoch, token = stop.get_token()] {
    give_way();
    return open_(epoch, until(token));
  };
  ahead_ = Ahead{epoch, stop, std::async(std::launch::async, make)};
}

/// Removes the files of earlier epochs but the first, which says how many examples there are.
void EpochSource::forget_before(int64_t epoch) const {
  for (auto entry = epochs_.begin(); entry != epochs_.end() && entry->first < epoch;) {
    if (entry->first == 0) {
      ++entry;
      continue;
    }
    std::error_code ignored;
    for (const std::string& store : entry->second.stores) std::filesystem::remove(store, ignored);
    entry = epochs_.erase(entry);
  }
}

}  // namespace mtf
