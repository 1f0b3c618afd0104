#include "data/loader.h"

#include <algorithm>
#include <new>
#include <string_view>

#include "engine/base/check.h"

namespace mtf {
namespace {

constexpr size_t alignment = 64;
/// The name of the rows of a batch among its dimensions; no feature has one of this name.
constexpr std::string_view kRows = "batch";

size_t aligned(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// The box of a feature; nothing when it is the whole value.
std::optional<Box> box_of(const Feature& feature, const Box& box) {
  MTF_CHECK(box.shape.rank() == feature.shape.rank() && std::ssize(box.begin) == feature.shape.rank(),
            "a box of {} of feature {} {}", box.shape.to_string(), feature.name, feature.shape.to_string());
  for (int axis = 0; axis < feature.shape.rank(); ++axis)
    MTF_CHECK(box.begin[axis] >= 0 && box.begin[axis] + box.shape[axis].size <= feature.shape[axis].size,
              "a box from {} of {} of feature {} {}", box.begin[axis], box.shape.to_string(), feature.name,
              feature.shape.to_string());
  return box.shape == feature.shape ? std::nullopt : std::optional(box);
}

}  // namespace

void Batch::Free::operator()(std::byte* memory) const {
  ::operator delete(memory, std::align_val_t(alignment));
}

BatchStream::BatchStream(std::shared_ptr<const Source> source, int64_t batch_size, const BatchPart& part)
    : source_(std::move(source)),
      batch_size_(batch_size),
      local_begin_(part.begin),
      local_rows_(part.count.value_or(batch_size - part.begin)),
      examples_(source_->examples()) {
  MTF_CHECK(batch_size >= 1, "batch size {}", batch_size);
  MTF_CHECK(local_begin_ >= 0 && local_rows_ >= 1 && local_begin_ + local_rows_ <= batch_size,
            "rows {}..{} of a batch of {}", local_begin_, local_begin_ + local_rows_, batch_size);
  for (const Feature& feature : source_->features()) {
    in_bytes_.push_back(part.in_bytes && source_->has_bytes(boxes_.size()));
    const auto box = part.boxes.find(feature.name);
    boxes_.push_back(box == part.boxes.end() ? std::nullopt : box_of(feature, box->second));
  }
}

BatchStream::BatchStream(std::shared_ptr<const Source> source, TrainingBatches options, BatchPart part)
    : BatchStream(std::move(source), options.batch_size, part) {
  MTF_CHECK(options.start_row >= 0, "start row {}", options.start_row);
  trains_ = true;
  seed_ = options.seed;
  shuffle_ = options.shuffle;
  start_row_ = options.start_row;
  end_row_ = options.end_row;
  if (end_row_) batches_ = std::max<int64_t>(0, (*end_row_ - start_row_ + batch_size_ - 1) / batch_size_);
}

BatchStream::BatchStream(std::shared_ptr<const Source> source, EvaluationBatches options, BatchPart part)
    : BatchStream(std::move(source), options.batch_size, part) {
  if (options.limit) {
    MTF_CHECK(*options.limit >= 1, "limit {}", *options.limit);
    examples_ = std::min(examples_, *options.limit);
  }
  batches_ = (examples_ + batch_size_ - 1) / batch_size_;
}

int64_t BatchStream::example(int64_t row) const {
  if (!trains_) return row;  // evaluation reads in the order of the source
  return source_->stream_example(row, shuffle_ ? std::optional(seed_) : std::nullopt);
}

int64_t BatchStream::buffer_bytes(size_t f) const {
  const FeatureSlice slice{nullptr, boxes_[f] ? &*boxes_[f] : nullptr, in_bytes_[f]};
  return local_rows_ * slice.bytes(source_->features()[f]);
}

Batch BatchStream::make_batch() const {
  Batch batch;
  size_t total = 0;
  for (size_t f = 0; f < boxes_.size(); ++f) {
    batch.sizes_.push_back(static_cast<size_t>(buffer_bytes(f)));
    total += aligned(batch.sizes_.back());
    Box place = boxes_[f] ? *boxes_[f] : Box::whole(source_->features()[f].shape);
    place.begin.insert(place.begin.begin(), local_begin_);
    place.shape = Shape{{std::string(kRows), local_rows_}} + place.shape;
    batch.places_.push_back(std::move(place));
  }
  batch.memory_.reset(static_cast<std::byte*>(::operator new(total, std::align_val_t(alignment))));
  std::byte* next = batch.memory_.get();
  for (const size_t size : batch.sizes_) {
    batch.buffers_.push_back(next);
    next += aligned(size);
  }
  batch.boxes_.reserve(boxes_.size());  // the slices point into it
  for (size_t f = 0; f < boxes_.size(); ++f) {
    const Box* const box = boxes_[f] ? &batch.boxes_.emplace_back(*boxes_[f]) : nullptr;
    batch.slices_.push_back({batch.buffers_[f], box, in_bytes_[f]});
  }
  batch.examples_.resize(local_rows_ + (trains_ ? 1 : 0));
  batch.epochs_.resize(trains_ ? local_rows_ + 1 : 0);
  batch.weights.resize(local_rows_);
  return batch;
}

int64_t BatchStream::batch_bytes() const {
  int64_t bytes = local_rows_ * static_cast<int64_t>(sizeof(int64_t) + sizeof(float));
  if (trains_)
    bytes += (local_rows_ + 2) * static_cast<int64_t>(sizeof(int64_t));  // with the row after the last
  for (size_t f = 0; f < boxes_.size(); ++f)
    bytes += static_cast<int64_t>(aligned(static_cast<size_t>(buffer_bytes(f))));
  return bytes;
}

void BatchStream::read(int64_t index, Batch& batch) const {
  MTF_CHECK(index >= 0 && (!batches_ || index < *batches_), "batch {} of {}", index, batches_.value_or(0));
  const int64_t begin = start_row_ + index * batch_size_;
  const int64_t end = trains_ ? begin + batch_size_ : std::min(begin + batch_size_, examples_);
  for (int64_t i = 0; i < local_rows_; ++i) {
    const int64_t row = begin + local_begin_ + i;
    batch.weights[i] = row < end ? 1.0f : 0.0f;
    // Padding rows repeat an example, so their values are legal.
    batch.examples_[i] = example(std::min(row, end - 1));
  }
  if (!trains_) {
    source_->read(batch.examples_, batch.slices_);
  } else {
    batch.examples_.back() = example(begin + (local_begin_ + local_rows_) % batch_size_);
    for (int64_t i = 0; i <= local_rows_; ++i)
      batch.epochs_[i] = source_->stream_epoch(begin + (local_begin_ + i) % batch_size_);
    source_->read_training(batch.examples_, batch.epochs_, batch.slices_);
  }
  batch.index = index;
  batch.next_row = end;
  batch.first = local_begin_;
}

void BatchStream::begin(const std::stop_token& stop) const {
  if (!trains_) return;
  std::optional<int64_t> end;
  if (batches_) end = start_row_ + *batches_ * batch_size_;
  source_->begin_stream(end, stop);
}

int64_t Prefetcher::bytes(const BatchStream& stream, int depth, int kept) {
  return stream.batch_bytes() * std::min<int64_t>(depth + kept, stream.batches().value_or(depth + kept)) +
         stream.source().bytes_of_reading(stream.local_rows());
}

Prefetcher::Prefetcher(BatchStream stream, int64_t first_batch, int depth, int kept)
    : stream_(std::move(stream)), first_batch_(first_batch), kept_(kept) {
  MTF_CHECK(first_batch >= 0 && depth >= 1 && kept >= 1, "prefetch of {} batches from {}, {} kept", depth,
            first_batch, kept);
  for (int i = 0; i < depth + kept; ++i) slots_.push_back(stream_.make_batch());
  stream_.begin(stop_.get_token());
  reader_ = std::thread([this] { read_ahead(); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_.request_stop();
  }
  changed_.notify_all();
  reader_.join();
}

bool Prefetcher::wait(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [this] { return has_next(); });
}

const Batch* Prefetcher::next() {
  std::unique_lock lock(mutex_);
  held_ = std::max(held_, taken_ + 1 - kept_);  // returns the oldest batch to the reader
  changed_.notify_all();
  changed_.wait(lock, [this] { return has_next(); });
  if (filled_ > taken_) return &slots_[taken_++ % slots_.size()];
  if (error_) std::rethrow_exception(error_);
  return nullptr;
}

void Prefetcher::read_ahead() {
  const auto slots = static_cast<int64_t>(slots_.size());
  std::unique_lock lock(mutex_);
  while (!stop_.stop_requested()) {
    const int64_t index = first_batch_ + filled_;
    if (stream_.batches() && index >= *stream_.batches()) break;
    // The slots of batches held_ .. filled_ - 1 are in use: the consumer's batches and those read ahead.
    changed_.wait(lock, [&] { return stop_.stop_requested() || filled_ - held_ < slots; });
    if (stop_.stop_requested()) return;
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
