// Batches of a source, addressed by their index.
//
//   const BatchStream stream(source, {.batch_size = 200, .seed = 1});   // endless; pure function of the
//   batch index Prefetcher batches(stream);                                         // reads ahead on a
//   thread of its own while (const Batch* batch = batches.next()) step(batch->feature(0), ...);
//
// A row of a stream is one place in the endless sequence epoch 0, epoch 1, ...: row r is the source's
// stream_example(r, seed), for most sources example P(seed, r / n)(r % n) of the n examples. It is the unit
// of resume: start_row = Batch::next_row of the last batch that was trained.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "data/source.h"

namespace mtf {

/// The endless stream of training.
struct TrainingBatches {
  int64_t batch_size = 1;
  uint64_t seed = 1;
  bool shuffle = true;    ///< false: every epoch in the order of the source
  int64_t start_row = 0;  ///< row of the stream at which batch 0 begins
};

/// One pass in the order of the source. The last batch may be partial: it is filled with rows of weight 0.
struct EvaluationBatches {
  int64_t batch_size = 1;
  std::optional<int64_t> limit = {};  ///< only the first so many examples
};

/// A contiguous part of the rows of each batch, for a process that holds only these; default: all.
struct BatchRows {
  int64_t begin = 0;
  std::optional<int64_t> count = {};
};

/// Buffers of one batch, allocated once and filled again and again.
class Batch {
 public:
  int64_t index = 0;           ///< number of the batch in its stream
  int64_t next_row = 0;        ///< row of the stream after this batch: the start_row that continues it
  int64_t first = 0;           ///< row of the batch at which the buffers begin: BatchRows::begin
  std::vector<float> weights;  ///< [rows]: 1 for examples, 0 for filling

  /// Feature f of the source, [rows, shape of the feature], row-major, aligned to 64 bytes.
  std::span<const std::byte> feature(int f) const { return {buffers_[f], sizes_[f]}; }
  template <class T>
  std::span<const T> values(int f) const {
    return {reinterpret_cast<const T*>(buffers_[f]), sizes_[f] / sizeof(T)};
  }

 private:
  friend class BatchStream;
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::vector<std::byte*> buffers_;
  std::vector<size_t> sizes_;
  std::vector<int64_t> examples_;  ///< [batch]: row indices of the source
};

/// Says which examples make batch i, and reads them. Immutable: several threads may use one.
class BatchStream {
 public:
  BatchStream(std::shared_ptr<const Source> source, TrainingBatches options, BatchRows rows = {});
  BatchStream(std::shared_ptr<const Source> source, EvaluationBatches options, BatchRows rows = {});

  const Source& source() const { return *source_; }
  /// Global size of a batch, and the rows of it that this stream reads.
  int64_t batch_size() const { return batch_size_; }
  int64_t local_rows() const { return local_rows_; }
  /// Number of batches; nothing: endless.
  std::optional<int64_t> batches() const { return batches_; }
  /// Rows of one epoch.
  int64_t examples() const { return examples_; }
  /// Epochs completed before row `row` of the stream.
  int64_t epoch(int64_t row) const { return row / examples_; }

  /// Source index of a row of the stream.
  int64_t example(int64_t row) const;
  /// Allocates buffers for read(), of batch_bytes() in all.
  Batch make_batch() const;
  int64_t batch_bytes() const;
  /// Fills `batch` with batch `index`. Throws what the source throws.
  void read(int64_t index, Batch& batch) const;

 private:
  BatchStream(std::shared_ptr<const Source> source, int64_t batch_size, BatchRows rows);

  std::shared_ptr<const Source> source_;
  int64_t batch_size_;
  int64_t local_begin_;
  int64_t local_rows_;
  int64_t examples_;
  uint64_t seed_ = 0;
  bool shuffle_ = false;
  int64_t start_row_ = 0;
  std::optional<int64_t> batches_;
};

/// Reads the batches of a stream in order, up to `depth` ahead of the consumer, on a thread of its own.
class Prefetcher {
 public:
  static constexpr int kDepth = 2;
  /// Bytes that are filled with batches of `stream`: those read ahead, and the consumer's.
  static int64_t bytes(const BatchStream& stream, int depth = kDepth);

  explicit Prefetcher(BatchStream stream, int64_t first_batch = 0, int depth = kDepth);
  /// Stops after the batch that is being read.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  const BatchStream& stream() const { return stream_; }
  /// The next batch, valid until the next call; nullptr after the last. Rethrows what the reader threw, after
  /// the batches before it.
  const Batch* next();

 private:
  void read_ahead();

  const BatchStream stream_;
  const int64_t first_batch_;
  std::vector<Batch> slots_;  ///< ring: batch first + i lies in slot i % slots; one slot is the consumer's
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t filled_ = 0;     ///< batches read so far
  int64_t taken_ = 0;      ///< batches handed out so far
  int64_t held_ = 0;       ///< batches given back by the consumer
  bool finished_ = false;  ///< the reader has ended, with `error_` or after the last batch
  bool stop_ = false;
  std::exception_ptr error_;
  std::thread reader_;
};

}  // namespace mtf
