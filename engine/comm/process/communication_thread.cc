#include "engine/comm/process/communication_thread.h"

#include <fmt/format.h>

namespace mtf {

CommunicationThread::CommunicationThread(FlightRecord& record, void (*prepare)(), Profile* profile)
    : record_(record),
      profile_(profile),
      track_(profile != nullptr ? profile->track("communication") : nullptr),
      queue_(64),
      thread_([this, prepare] {
        if (prepare) prepare();
        run();
      }) {}

CommunicationThread::~CommunicationThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  queued_.notify_one();
  thread_.join();
}

uint64_t CommunicationThread::start(CommunicationJob& job) {
  uint64_t ticket;
  {
    const std::lock_guard lock(mutex_);
    if (started_ - finished_ == queue_.size()) {
      std::vector<CommunicationJob*> larger(2 * queue_.size());
      for (uint64_t n = finished_ + 1; n <= started_; ++n)
        larger[n % larger.size()] = queue_[n % queue_.size()];
      queue_ = std::move(larger);
    }
    ticket = ++started_;
    queue_[ticket % queue_.size()] = &job;
    record_.queued(ticket, job.name(), job.bytes());
  }
  queued_.notify_one();
  return ticket;
}

void CommunicationThread::wait(uint64_t ticket) {
  std::unique_lock lock(mutex_);
  ran_.wait(lock, [&] { return finished_ >= ticket || error_; });
  if (finished_ < ticket) std::rethrow_exception(error_);
}

void CommunicationThread::check() {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
}

const ProfileLabel* CommunicationThread::label_of(const CommunicationJob& job) const {
  if (track_ == nullptr || !track_->is_on()) return nullptr;
  return profile_->label(job.name(), ProfileCategory::kCommunication, fmt::format("{} bytes", job.bytes()));
}

void CommunicationThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    queued_.wait(lock, [&] { return stop_ || started_ > finished_; });
    if (stop_) return;
    const uint64_t sequence = finished_ + 1;
    CommunicationJob& job = *queue_[sequence % queue_.size()];
    lock.unlock();
    std::exception_ptr error;
    try {
      record_.begun(sequence);
      const ProfileSpan span(track_, label_of(job));
      job.run(sequence);
      record_.ended(sequence);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    if (!error) finished_ = sequence;
    ran_.notify_all();
    if (error) return;
  }
}

}  // namespace mtf
