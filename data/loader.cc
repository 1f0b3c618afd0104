#include "data/loader.h"

#include <algorithm>
#include <new>

#include "engine/base/check.h"

namespace mtf {
namespace {

constexpr size_t alignment = 64;

size_t aligned(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace

void Batch::Free::operator()(std::byte* memory) const {
  ::operator delete(memory, std::align_val_t(alignment));
}

BatchStream::BatchStream(std::shared_ptr<const Source> source, int64_t batch_size, BatchRows rows)
    : source_(std::move(source)),
      batch_size_(batch_size),
      local_begin_(rows.begin),
      local_rows_(rows.count.value_or(batch_size - rows.begin)),
      examples_(source_->examples()) {
  MTF_CHECK(batch_size >= 1, "batch size {}", batch_size);
  MTF_CHECK(local_begin_ >= 0 && local_rows_ >= 1 && local_begin_ + local_rows_ <= batch_size,
            "rows {}..{} of a batch of {}", local_begin_, local_begin_ + local_rows_, batch_size);
}

BatchStream::BatchStream(std::shared_ptr<const Source> source, TrainingBatches options, BatchRows rows)
    : BatchStream(std::move(source), options.batch_size, rows) {
  MTF_CHECK(options.start_row >= 0, "start row {}", options.start_row);
  seed_ = options.seed;
  shuffle_ = options.shuffle;
  start_row_ = options.start_row;
}

BatchStream::BatchStream(std::shared_ptr<const Source> source, EvaluationBatches options, BatchRows rows)
    : BatchStream(std::move(source), options.batch_size, rows) {
  if (options.limit) {
    MTF_CHECK(*options.limit >= 1, "limit {}", *options.limit);
    examples_ = std::min(examples_, *options.limit);
  }
  batches_ = (examples_ + batch_size_ - 1) / batch_size_;
}

int64_t BatchStream::example(int64_t row) const {
  if (batches_) return row;  // evaluation reads in the order of the source
  return source_->stream_example(row, shuffle_ ? std::optional(seed_) : std::nullopt);
}

Batch BatchStream::make_batch() const {
  Batch batch;
  size_t total = 0;
  for (const Feature& feature : source_->features()) {
    batch.sizes_.push_back(static_cast<size_t>(local_rows_ * feature.bytes()));
    total += aligned(batch.sizes_.back());
  }
  batch.memory_.reset(static_cast<std::byte*>(::operator new(total, std::align_val_t(alignment))));
  std::byte* next = batch.memory_.get();
  for (const size_t size : batch.sizes_) {
    batch.buffers_.push_back(next);
    next += aligned(size);
  }
  batch.examples_.resize(local_rows_);
  batch.weights.resize(local_rows_);
  return batch;
}

int64_t BatchStream::batch_bytes() const {
  int64_t bytes = local_rows_ * static_cast<int64_t>(sizeof(int64_t) + sizeof(float));
  for (const Feature& feature : source_->features())
    bytes += static_cast<int64_t>(aligned(static_cast<size_t>(local_rows_ * feature.bytes())));
  return bytes;
}

void BatchStream::read(int64_t index, Batch& batch) const {
  MTF_CHECK(index >= 0 && (!batches_ || index < *batches_), "batch {} of {}", index, batches_.value_or(0));
  const int64_t begin = start_row_ + index * batch_size_;
  const int64_t end = batches_ ? std::min(begin + batch_size_, examples_) : begin + batch_size_;
  for (int64_t i = 0; i < local_rows_; ++i) {
    const int64_t row = begin + local_begin_ + i;
    batch.weights[i] = row < end ? 1.0f : 0.0f;
    // Padding rows repeat an example, so their values are legal.
    batch.examples_[i] = example(std::min(row, end - 1));
  }
  source_->read(batch.examples_, batch.buffers_);
  batch.index = index;
  batch.next_row = end;
  batch.first = local_begin_;
}

int64_t Prefetcher::bytes(const BatchStream& stream, int depth) {
  return stream.batch_bytes() * std::min<int64_t>(depth + 1, stream.batches().value_or(depth + 1));
}

Prefetcher::Prefetcher(BatchStream stream, int64_t first_batch, int depth)
    : stream_(std::move(stream)), first_batch_(first_batch) {
  MTF_CHECK(first_batch >= 0 && depth >= 1, "prefetch of {} batches from {}", depth, first_batch);
  for (int i = 0; i < depth + 1; ++i) slots_.push_back(stream_.make_batch());
  reader_ = std::thread([this] { read_ahead(); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  reader_.join();
}

const Batch* Prefetcher::next() {
  std::unique_lock lock(mutex_);
  held_ = taken_;  // returns the previous batch to the reader
  changed_.notify_all();
  changed_.wait(lock, [this] { return filled_ > taken_ || finished_; });
  if (filled_ > taken_) return &slots_[taken_++ % slots_.size()];
  if (error_) std::rethrow_exception(error_);
  return nullptr;
}

void Prefetcher::read_ahead() {
  const auto slots = static_cast<int64_t>(slots_.size());
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const int64_t index = first_batch_ + filled_;
    if (stream_.batches() && index >= *stream_.batches()) break;
    // The slots of batches held_ .. filled_ - 1 are in use: the consumer's batch and those read ahead.
    changed_.wait(lock, [&] { return stop_ || filled_ - held_ < slots; });
    if (stop_) return;
    Batch& slot = slots_[filled_ % slots];
    lock.unlock();
    std::exception_ptr error;
    try {
      stream_.read(index, slot);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) {
      error_ = error;
      break;
    }
    ++filled_;
    changed_.notify_all();
  }
  finished_ = true;
  changed_.notify_all();
}

}  // namespace mtf
