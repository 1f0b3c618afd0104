// Collectives between the processes of a run, as messages over a Transport.
//
//   ProcessCommunicator communicator(transport, thread);     // both outlive it
//   auto collective = communicator.prepare(std::move(parts), "all_reduce grads/kernel over data");
//   collective->start(); ...; collective->wait();
//
// Sums have the bits that one process would give (process/reduce_job.h); nothing allocates after prepare()
// but start_gather().
#pragma once

#include "engine/comm/process/remote_job.h"

namespace mtf {

class ProcessCommunicator final : public Communicator {
 public:
  ProcessCommunicator(Transport& transport, CommunicationThread& thread);

  int process() const override { return staging_.transport().rank(); }
  int processes() const override { return staging_.transport().size(); }
  /// Parts of the same kind; none: takes part in the numbering only.
  std::unique_ptr<RemoteCollective> prepare(std::vector<RemotePart> parts, const std::string& name) override;
  /// One that is not waited for is when it is destroyed.
  std::unique_ptr<PendingGather> start_gather(std::string bytes, const std::string& name) override;
  void check() override;

 private:
  Staging staging_;
  CommunicationThread& thread_;
};

}  // namespace mtf
