// The thread that runs collectives between processes, one after the other in the order in which they were
// started, while the workers compute.
//
//   CommunicationThread thread(watch);
//   const uint64_t ticket = thread.start(job);
//   ...
//   thread.wait(ticket);       // rethrows what the job threw
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

/// Something that all processes do together.
class CommunicationJob {
 public:
  virtual ~CommunicationJob() = default;
  /// `sequence`: number of the job, the same in all processes; part of the tags of its messages.
  virtual void run(uint64_t sequence) = 0;
  /// For messages and the flight record: "all_reduce grads/layer_1/kernel over data".
  virtual const std::string& name() const = 0;
  /// Payload that this process sends.
  virtual int64_t bytes() const = 0;
};

class CommunicationThread {
 public:
  /// `record` gets an entry when a job is queued, begins and ends; it outlives the thread, as does `profile`
  /// (null: none), in which jobs are spans. `prepare` runs once in the thread.
  explicit CommunicationThread(FlightRecord& record, void (*prepare)() = nullptr, Profile* profile = nullptr);
  /// Jobs that have not begun are dropped.
  ~CommunicationThread();
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  /// Queues a job, which must live until it was waited for. Allocates nothing after the first jobs. After a
  /// job has failed all later ones fail with the same error.
  uint64_t start(CommunicationJob& job);
  /// Returns when the job has run; rethrows what it threw.
  void wait(uint64_t ticket);
  /// Rethrows what the first job that failed has thrown; does not wait.
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
  std::vector<CommunicationJob*> queue_;  ///< job n at n % size, for started_ >= n > finished_
  uint64_t started_ = 0;
  uint64_t finished_ = 0;
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace mtf
