#include "engine/runtime/remote_traffic.h"

#include "engine/comm/device/device_plan.h"
#include "engine/comm/process/process_communicator.h"
#include "engine/core/check.h"
#include "engine/runtime/collective_of.h"

namespace mtf {
namespace {

/// Messages that are prepared and never sent.
class NoMessages final : public MessageBuffer {
 public:
  void send(int, uint64_t, size_t, size_t) override { refuse(); }
  void receive(int, uint64_t, size_t, size_t) override { refuse(); }
  void wait_sent() override { refuse(); }
  void wait_received() override { refuse(); }

 private:
  [[noreturn]] static void refuse() { MTF_CHECK(false, "there is no other process"); }
};

class NoTransport final : public Transport {
 public:
  explicit NoTransport(Hosting hosting) : hosting_(hosting) {}
  int rank() const override { return hosting_.process; }
  int size() const override { return hosting_.processes; }
  std::unique_ptr<MessageBuffer> buffer(std::span<std::byte>) override {
    return std::make_unique<NoMessages>();
  }
  void check() override {}
  void abort(const std::string&) override {}

 private:
  Hosting hosting_;
};

class TrafficCounter {
 public:
  TrafficCounter(const Program& program, Hosting hosting, bool replicate, bool on_device)
      : program_(program),
        mesh_(program.mesh, hosting),
        replicate_(replicate),
        on_device_(on_device),
        transport_(hosting),
        record_(1),
        thread_(record_),
        communicator_(transport_, thread_) {}

  double sent(const std::vector<Instruction>& block) {
    double bytes = 0;
    for (const Instruction& instruction : block) {
      bytes += static_cast<double>(instruction.count) * sent(instruction.body);
      if (instruction.is_collective() && crosses_processes(program_, instruction, mesh_, replicate_))
        bytes += sent_by(instruction);
    }
    return bytes;
  }

 private:
  double sent_by(const Instruction& instruction) {
    std::vector<RemotePart> parts = planned_parts(program_, instruction, mesh_, replicate_);
    if (on_device_)
      return static_cast<double>(plan_on_device(parts, mesh_.process(), mesh_.processes()).bytes_sent);
    return communicator_.prepare(std::move(parts), name_of(instruction))->bytes_sent();
  }

  const Program& program_;
  const HostedMesh mesh_;
  const bool replicate_, on_device_;
  NoTransport transport_;
  FlightRecord record_;
  CommunicationThread thread_;
  ProcessCommunicator communicator_;
};

}  // namespace

double remote_traffic(const Program& program, Hosting hosting, bool replicate, bool on_device) {
  if (hosting.processes == 1) return 0;
  return TrafficCounter(program, hosting, replicate, on_device).sent(program.instructions);
}

}  // namespace mtf
