#include "engine/comm/process/process_communicator.h"

#include <utility>

#include "engine/base/hash.h"
#include "engine/comm/process/move_job.h"
#include "engine/comm/process/reduce_job.h"

namespace mtf {
namespace {

/// Gathers the lengths first, then the bytes.
class GatherJob final : public PendingGather, public CommunicationJob {
 public:
  GatherJob(Transport& transport, CommunicationThread& thread, std::string bytes, std::string name)
      : transport_(transport),
        thread_(thread),
        name_(std::move(name)),
        lengths_(transport.size()),
        bytes_(transport.size()),
        sent_((static_cast<int64_t>(bytes.size()) + kLengthBytes) * (transport.size() - 1)) {
    bytes_[transport.rank()] = std::move(bytes);
    ticket_ = thread.start(*this);
  }

  ~GatherJob() override {
    try {
      if (!waited_) thread_.wait(ticket_);
    } catch (...) {  // the next collective reports the error
    }
  }

  std::vector<std::string> wait() override {
    waited_ = true;
    thread_.wait(ticket_);
    return std::move(bytes_);
  }

  void run(uint64_t sequence) override {
    const int own = transport_.rank();
    lengths_[own] = static_cast<int64_t>(bytes_[own].size());
    exchange(sequence, MessagePhase::kGatherLength,
             [&](int process) { return std::as_writable_bytes(std::span(&lengths_[process], 1)); });
    for (int process = 0; process < transport_.size(); ++process) bytes_[process].resize(lengths_[process]);
    exchange(sequence, MessagePhase::kGatherBytes,
             [&](int process) { return std::as_writable_bytes(std::span(bytes_[process])); });
  }

  const std::string& name() const override { return name_; }
  int64_t bytes() const override { return sent_; }

 private:
  static constexpr int64_t kLengthBytes = sizeof(int64_t);

  /// Sends memory(own process) to each process, and receives into memory(process) what that process sends.
  template <class Memory>
  void exchange(uint64_t sequence, MessagePhase phase, const Memory& memory) {
    const auto of_name = static_cast<int64_t>(hash64(name_) >> 2);
    const auto tag = [&](std::span<const std::byte> data) {
      const int64_t number = 2 * of_name + (phase == MessagePhase::kGatherBytes ? 1 : 0);
      return message_tag(sequence,
                         message_mark(number, phase, static_cast<int64_t>(data.size()), DType::kBool));
    };
    std::vector<std::unique_ptr<MessageBuffer>> buffers;
    const int own = transport_.rank();
    for (int process = 0; process < transport_.size(); ++process) {
      buffers.push_back(memory(process).empty() ? nullptr : transport_.buffer(memory(process)));
    }
    for (int peer = 0; peer < transport_.size(); ++peer) {
      if (peer == own) continue;
      if (buffers[peer]) buffers[peer]->receive(peer, tag(memory(peer)), 0, memory(peer).size());
      if (buffers[own]) buffers[own]->send(peer, tag(memory(own)), 0, memory(own).size());
    }
    for (int peer = 0; peer < transport_.size(); ++peer) {
      if (peer != own && buffers[peer]) buffers[peer]->wait_received();
      if (peer != own && buffers[own]) buffers[own]->wait_sent();
    }
  }

  Transport& transport_;
  CommunicationThread& thread_;
  std::string name_;
  std::vector<int64_t> lengths_;
  std::vector<std::string> bytes_;
  int64_t sent_;
  uint64_t ticket_ = 0;
  bool waited_ = false;
};

}  // namespace

ProcessCommunicator::ProcessCommunicator(Transport& transport, CommunicationThread& thread)
    : staging_(transport), thread_(thread) {}

std::unique_ptr<RemoteCollective> ProcessCommunicator::prepare(std::vector<RemotePart> parts,
                                                               const std::string& name) {
  using Kind = Collective::Kind;
  const Kind kind = parts.empty() ? Kind::kAllReduce : parts[0].collective.kind;
  return kind == Kind::kAllReduce || kind == Kind::kReduceScatter
             ? prepare_reduce_job(staging_, thread_, std::move(parts), name)
             : prepare_move_job(staging_, thread_, parts, name);
}

std::unique_ptr<PendingGather> ProcessCommunicator::start_gather(std::string bytes, const std::string& name) {
  return std::make_unique<GatherJob>(staging_.transport(), thread_, std::move(bytes), name);
}

void ProcessCommunicator::check() {
  thread_.check();
  staging_.transport().check();
}

}  // namespace mtf
