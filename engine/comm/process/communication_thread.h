// A thread that runs collectives between processes while the worker threads compute: one after the other, in
// the order in which they were started.
//
//   CommunicationThread thread(record);
//   const uint64_t ticket = thread.start(job);
//   ...
//   thread.wait(ticket);       // rethrows what the job has thrown
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/comm/process/flight_record.h"
#include "engine/core/profile.h"

namespace mtf {

/// A job that all processes run together.
class CommunicationJob {
 public:
  virtual ~CommunicationJob() = default;
  /// Runs the job. `sequence` is the number of the job; it is the same in all processes and a part of the
  /// tags of its messages.
  virtual void run(uint64_t sequence) = 0;
  /// Returns the name for messages and the flight record, such as "all_reduce grads/layer_1/kernel over
  /// data".
  virtual const std::string& name() const = 0;
  /// Returns the number of payload bytes that this process sends.
  virtual int64_t bytes() const = 0;
};

class CommunicationThread {
 public:
  /// `record` gets an entry when a job is queued, begins and ends; jobs are also spans of `profile` (null:
  /// none). Both must outlive the thread. `prepare` runs once in the thread.
  explicit CommunicationThread(FlightRecord& record, void (*prepare)() = nullptr, Profile* profile = nullptr);
  /// Drops the jobs that have not begun.
  ~CommunicationThread();
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  /// Queues a job, which must live until wait() has returned for it. Allocates no memory after the first
  /// jobs. Once a job has failed, all later jobs fail with the same error.
  uint64_t start(CommunicationJob& job);
  /// Returns when the job has run; rethrows what it has thrown.
  void wait(uint64_t ticket);
  /// Rethrows what the first failed job has thrown, if any; does not wait.
  void check();

 private:
  void run();
  const ProfileLabel* label_of(const CommunicationJob& job) const;

  FlightRecord& record_;
  Profile* const profile_;
  ProfileTrack* const track_;
  std::mutex mutex_;
  std::condition_variable queued_;
  std::condition_variable ran_;
  std::vector<CommunicationJob*> queue_;  ///< job n is at n % size, for started_ >= n > finished_
  uint64_t started_ = 0;
  uint64_t finished_ = 0;
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace mtf
