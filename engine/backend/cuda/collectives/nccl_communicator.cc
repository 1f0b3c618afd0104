#include "engine/backend/cuda/collectives/nccl_communicator.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "engine/backend/cuda/collectives/device_part.h"
#include "engine/core/check.h"

namespace mtf::cuda {
namespace {

/// A collective of one or more parts. The compute stream packs, the stream of messages waits for it and
/// sends; at wait() the compute stream waits for the messages.
class EnqueuedCollective final : public RemoteCollective {
 public:
  EnqueuedCollective(Device& device, DeviceCollectives& wire, Stream stream, PeerWatch& watch,
                     std::vector<std::unique_ptr<DevicePart>> parts)
      : device_(device),
        wire_(wire),
        stream_(stream),
        watch_(watch),
        parts_(std::move(parts)),
        ready_(device.make_event()),
        sent_(device.make_event()) {
    for (const auto& part : parts_) rounds_ = std::max(rounds_, part->rounds());
  }

  void start() override {
    watch_.during([&] {
      for (const auto& part : parts_) {
        part->begin();
        part->before();
      }
      send(0);
    });
    is_started_ = true;
  }

  void wait() override {
    if (!std::exchange(is_started_, false)) return;
    watch_.during([&] {
      for (int round = 0; round < rounds_; ++round) {
        if (round > 0) send(round);
        sent_->wait_in(device_.compute());
        for (const auto& part : parts_) part->after(round);
      }
      for (const auto& part : parts_) part->end();
    });
  }

  double bytes_sent() const override {
    int64_t bytes = 0;
    for (const auto& part : parts_) bytes += part->bytes_sent();
    return static_cast<double>(bytes);
  }

 private:
  void send(int round) {
    ready_->record(device_.compute());
    ready_->wait_in(stream_);
    wire_.run(stream_, [&] {
      for (const auto& part : parts_) part->send(round, wire_);
    });
    sent_->record(stream_);
  }

  Device& device_;
  DeviceCollectives& wire_;
  const Stream stream_;
  PeerWatch& watch_;
  const std::vector<std::unique_ptr<DevicePart>> parts_;  ///< with as many rounds each
  const std::unique_ptr<Event> ready_, sent_;
  int rounds_ = 1;
  bool is_started_ = false;
};

}  // namespace

NcclCommunicator::NcclCommunicator(CudaBackend& backend, Communicator& host,
                                   const CommunicatorTimeouts& timeouts)
    : backend_(backend),
      device_(backend.device()),
      host_(host),
      stream_(device_.make_stream()),
      scratch_(backend),
      world_(open_collectives(device_, host, timeouts)),
      watch_([this] { look(); }, [this] { abort(); }, timeouts.collective) {
  backend_.set_watch(&watch_);
}

NcclCommunicator::~NcclCommunicator() {
  backend_.set_watch(nullptr);
  if (std::uncaught_exceptions() > 0) abort();  // others may have gone
}

std::vector<DeviceCollectives*> NcclCommunicator::all_collectives() {
  const std::lock_guard lock(mutex_);
  std::vector<DeviceCollectives*> all = {world_.get()};
  for (const auto& [processes, group] : groups_) all.push_back(group.get());
  return all;
}

DeviceCollectives& NcclCommunicator::collectives_of(const NcclGroup& group) {
  if (group.size() == processes()) return *world_;
  if (const auto found = groups_.find(group.processes); found != groups_.end()) return *found->second;
  std::unique_ptr<DeviceCollectives> made;
  watch_.during([&] { made = world_->split(group.color(), group.rank); });
  const std::lock_guard lock(mutex_);
  return *groups_.emplace(group.processes, std::move(made)).first->second;
}

std::unique_ptr<RemoteCollective> NcclCommunicator::prepare(std::vector<RemotePart> parts,
                                                            const std::string&) {
  const NcclGroup group = nccl_group(parts, process());
  std::vector<std::unique_ptr<DevicePart>> prepared;
  for (const RemotePart& part : parts) {
    const RemoteGroup& own = part.groups.front();
    MTF_CHECK(part.groups.size() == 1 && own.results.size() == 1 && own.results[0].size() == 1,
              "a process with several positions");
    prepared.push_back(prepare_device_part({.device = device_,
                                            .scratch = scratch_,
                                            .group = group,
                                            .collective = part.collective,
                                            .input = own.inputs[static_cast<size_t>(group.rank)],
                                            .result = own.results[0][0],
                                            .guard = part.guard}));
  }
  return std::make_unique<EnqueuedCollective>(device_, collectives_of(group), stream_, watch_,
                                              std::move(prepared));
}

/// Who is lost is known on the host, sometimes a little later than on the device that it is.
void NcclCommunicator::look() {
  constexpr int kLooks = 20;
  constexpr Milliseconds kBetween(100);
  host_.check();
  try {
    for (DeviceCollectives* group : all_collectives()) group->check();
  } catch (const Error&) {
    for (int looks = 0; looks < kLooks; ++looks) {
      std::this_thread::sleep_for(kBetween);
      host_.check();
    }
    throw;
  }
}

/// All at once: each may wait for recordings that go when the host has seen the error, which it does when the
/// last of them has ended.
void NcclCommunicator::abort() {
  std::vector<std::thread> threads;
  for (DeviceCollectives* group : all_collectives()) threads.emplace_back([group] { group->abort(); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace mtf::cuda
