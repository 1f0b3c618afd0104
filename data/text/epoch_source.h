// A source of training whose rows are made anew for each epoch, as where tokens are drawn. Each epoch is a source of its own.
// The next one is made in the background while an epoch is read, unless the reader ends before it.
//
//   const EpochSource source(open, key, progress);   // open(epoch, progress) makes an epoch
//
// All epochs have as many examples as the first one. Where an epoch has other rows, the examples are spread evenly over them,
// from a place that is drawn: a few rows are left out or come twice, each with the same probability.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "data/source.h"
#include "data/text/text_scan.h"
#include "engine/core/random.h"

namespace mtf {

/// The rows of one epoch, and the files that hold them.
struct EpochRows {
  std::unique_ptr<Source> source;
  std::vector<std::string> stores;
  int64_t bytes_of_making = 0;  ///< the memory that making them takes
};

/// Makes an epoch, a pure function of its number. It is called in the background, too; `progress`, if it is not empty, is
/// called between texts and may throw to end the work.
using OpenEpoch = std::function<EpochRows(int64_t epoch, const TextProgress& progress)>;

class EpochSource final : public Source {
 public:
  /// Makes epoch 0, which is told to `progress`. `key` decides which rows are left out.
  EpochSource(OpenEpoch open, PhiloxKey key, const TextProgress& progress = {});
  ~EpochSource() override;

  int64_t examples() const override { return first_->examples(); }
  const std::vector<Feature>& features() const override { return first_->features(); }
  /// The rows of epoch 0.
  void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const override;
  /// Waits for an epoch that is not there yet, until begin_stream()'s `stop` is requested. Throws what `open` throws.
  void read_training(std::span<const int64_t> examples, std::span<const int64_t> epochs,
                     std::span<const FeatureSlice> slices) const override;
  void begin_stream(std::optional<int64_t> end, const std::stop_token& stop) const override;
  bool begins_made_epoch(int64_t row) const override { return row % examples() == 0; }
  /// That of epoch 0.
  int64_t bytes_of_making_epochs() const override { return bytes_of_making_; }
  std::string fingerprint() const override { return first_->fingerprint(); }
  /// Always throws: drawn tokens do not stay aligned.
  void check_aligned(const Mark& mark) const override;

  /// The row of an epoch of `rows` rows that is example `example`.
  int64_t row_of(int64_t example, int64_t epoch, int64_t rows) const;

 private:
  struct Epoch {
    explicit Epoch(EpochRows rows) : source(std::move(rows.source)), stores(std::move(rows.stores)) {}
    std::shared_ptr<const Source> source;
    std::vector<std::string> stores;
  };
  struct Ahead {
    int64_t epoch;
    std::stop_source stop;
    std::future<EpochRows> rows;
  };
  std::shared_ptr<const Source> epoch_rows(int64_t epoch) const;
  void make_ahead(int64_t epoch) const;
  void forget_before(int64_t epoch) const;
  EpochRows take(int64_t epoch) const;

  OpenEpoch open_;
  PhiloxKey key_;
  int64_t bytes_of_making_;
  std::shared_ptr<const Source> first_;
  mutable std::mutex mutex_;
  mutable std::map<int64_t, Epoch> epochs_;
  mutable std::optional<int64_t> last_;  ///< the last epoch that is read, if it is known
  mutable std::stop_token stop_;         ///< requested when what is read is no longer needed
  mutable std::optional<Ahead> ahead_;   ///< the last member: it is ended before all others
};

}  // namespace mtf
