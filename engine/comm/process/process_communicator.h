// Runs collectives between the processes of a run by messages over a Transport.
//
//   ProcessCommunicator communicator(transport, thread);     // both must outlive it
//   auto collective = communicator.prepare(std::move(parts), "all_reduce grads/kernel over data");
//   collective->start(); ...; collective->wait();
//
// Sums have the same bits as in one process (process/reduce_job.h). After prepare() nothing allocates memory,
// except start_gather().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/comm/process/remote_job.h"

namespace mtf {

class ProcessCommunicator final : public Communicator {
 public:
  ProcessCommunicator(Transport& transport, CommunicationThread& thread);

  int process() const override { return staging_.transport().rank(); }
  int processes() const override { return staging_.transport().size(); }
  /// The parts must have the same kind. Without parts this process only takes part in the numbering.
  std::unique_ptr<RemoteCollective> prepare(std::vector<RemotePart> parts, const std::string& name) override;
  /// If wait() is not called, the destructor of the gather waits.
  std::unique_ptr<PendingGather> start_gather(std::string bytes, const std::string& name) override;
  void check() override;

 private:
  Staging staging_;
  CommunicationThread& thread_;
};

}  // namespace mtf
