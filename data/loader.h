// Turns a source of examples into batches, which are addressed by their index.
//
//   const BatchStream stream(source, TrainingBatches{.batch_size = 200, .seed = 1});  // endless
//   Prefetcher batches(stream);  // reads ahead on its own thread
//   while (const Batch* batch = batches.next()) step(batch->feature(0), ...);
//
// A batch is a pure function of its index. A row of a stream is one position in the endless sequence epoch 0,
// epoch 1, ...: row r is the source's stream_example(r, seed), for most sources example P(seed, r / n)(r % n)
// of the n examples. Training resumes at a row: start_row = Batch::next_row of the last batch that was
// trained on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "data/source.h"

namespace mtf {

/// Options of the stream of training batches, which is endless but for `end_row`.
struct TrainingBatches {
  int64_t batch_size = 1;
  uint64_t seed = 1;
  bool shuffle = true;    ///< false: every epoch has the order of the source
  int64_t start_row = 0;  ///< the row of the stream at which batch 0 begins
  /// The row at which the reader ends, if it is known: batches that begin there or behind it do not exist.
  std::optional<int64_t> end_row = {};
};

/// Options of one pass in the order of the source. A partial last batch is filled up with rows of weight 0.
struct EvaluationBatches {
  int64_t batch_size = 1;
  std::optional<int64_t> limit = {};  ///< reads only the first `limit` examples
};

/// The part of each batch that this process holds: contiguous rows, and of each example a box of each feature;
/// everything by default.
struct BatchPart {
  int64_t begin = 0;                  ///< the first row
  std::optional<int64_t> count = {};  ///< nothing: all rows from there on
  /// By the name of the feature; of features that are not named, the whole value.
  std::map<std::string, Box, std::less<>> boxes = {};
  /// Features that the source has in bytes are read so.
  bool in_bytes = false;
};

/// The buffers of one batch. They are allocated once and reused for batch after batch.
class Batch {
 public:
  int64_t index = 0;           ///< number of the batch in its stream
  int64_t next_row = 0;        ///< the stream's row after this batch, with which training resumes
  int64_t first = 0;           ///< the row of the batch at which the buffers begin: BatchPart::begin
  std::vector<float> weights;  ///< [rows]: 1 for examples, 0 for padding rows

  /// Returns the part of feature f of the source, [rows, shape of its box], row-major, aligned to 64 bytes.
  std::span<const std::byte> feature(int f) const { return {buffers_[f], sizes_[f]}; }
  /// True if these are bytes of which 255 stands for 1.
  bool in_bytes(int f) const { return slices_[f].in_bytes; }
  template <class T>
  std::span<const T> values(int f) const {
    return {reinterpret_cast<const T*>(buffers_[f]), sizes_[f] / sizeof(T)};
  }
  /// Returns the place of that part in the global batch: the first dimension is that of the rows.
  const Box& place(int f) const { return places_[f]; }

 private:
  friend class BatchStream;
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::vector<std::byte*> buffers_;
  std::vector<size_t> sizes_;
  std::vector<Box> places_;
  std::vector<Box> boxes_;  ///< what is read of the features that are read in part
  std::vector<FeatureSlice> slices_;
  std::vector<int64_t> examples_;  ///< [rows]: the source's index of each row; in training of one row more
  std::vector<int64_t> epochs_;    ///< in training: of the same rows
};

/// Determines the examples of each batch and reads them. It is immutable, so several threads may share one.
class BatchStream {
 public:
  BatchStream(std::shared_ptr<const Source> source, TrainingBatches options, BatchPart part = {});
  BatchStream(std::shared_ptr<const Source> source, EvaluationBatches options, BatchPart part = {});

  const Source& source() const { return *source_; }
  /// The number of rows of a batch that this stream reads.
  int64_t local_rows() const { return local_rows_; }
  /// The number of batches; nullopt if the stream is endless.
  std::optional<int64_t> batches() const { return batches_; }
  /// The number of rows of one epoch.
  int64_t examples() const { return examples_; }

  /// The source's index of the example in row `row` of the stream.
  int64_t example(int64_t row) const;
  /// Allocates the buffers for read(), batch_bytes() in total.
  Batch make_batch() const;
  int64_t batch_bytes() const;
  /// Fills `batch` with batch `index`. Throws what the source throws.
  void read(int64_t index, Batch& batch) const;
  /// Tells the source that its stream is read up to the end, or until `stop` is requested.
  void begin(const std::stop_token& stop) const;

 private:
  BatchStream(std::shared_ptr<const Source> source, int64_t batch_size, const BatchPart& part);
  int64_t buffer_bytes(size_t f) const;

  std::shared_ptr<const Source> source_;
  int64_t batch_size_;
  int64_t local_begin_;
  int64_t local_rows_;
  std::vector<std::optional<Box>> boxes_;  ///< [features]: what is read of each; nothing: the whole value
  std::vector<bool> in_bytes_;             ///< [features]
  int64_t examples_;
  bool trains_ = false;
  uint64_t seed_ = 0;
  bool shuffle_ = false;
  int64_t start_row_ = 0;
  std::optional<int64_t> end_row_;
  std::optional<int64_t> batches_;
};

/// Reads the batches of a stream in order on its own thread, up to `depth` batches ahead of the consumer.
class Prefetcher {
 public:
  static constexpr int kDepth = 2;
  /// The bytes of the batches that a Prefetcher of `stream` holds: those read ahead, and the consumer's; and what
  /// reading one takes.
  static int64_t bytes(const BatchStream& stream, int depth = kDepth, int kept = 1);

  /// The consumer keeps the last `kept` batches.
  explicit Prefetcher(BatchStream stream, int64_t first_batch = 0, int depth = kDepth, int kept = 1);
  /// Waits for the batch that is being read, unless it needs an epoch that is still made, then ends the thread.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  const BatchStream& stream() const { return stream_; }
  /// Waits, up to `patience`, until next() need not wait; false: it would.
  bool wait(std::chrono::milliseconds patience);
  /// Returns the next batch, which is valid until `kept` more calls; nullptr after the last one. Rethrows an
  /// exception of the reader thread, after all batches that were read before it.
  const Batch* next();

 private:
  void read_ahead();
  /// True if next() need not wait. `mutex_` is held.
  bool has_next() const { return filled_ > taken_ || finished_; }

  const BatchStream stream_;
  const int64_t first_batch_;
  const int kept_;
  /// A ring buffer: batch first_batch_ + i is in slot i % slots_.size(). `kept_` slots are the consumer's.
  std::vector<Batch> slots_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t filled_ = 0;     ///< number of batches read so far
  int64_t taken_ = 0;      ///< number of batches handed out so far
  int64_t held_ = 0;       ///< number of batches given back by the consumer
  bool finished_ = false;  ///< the reader has ended, after the last batch or with `error_`
  std::stop_source stop_;
  std::exception_ptr error_;
  std::thread reader_;
};

}  // namespace mtf
