#include "engine/backend/cuda/nccl_communicator.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "engine/backend/cuda/collectives/planned_collective.h"

namespace mtf::cuda {

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
  if (std::uncaught_exceptions() > 0) abort();  // other processes may be gone
}

std::vector<DeviceCollectives*> NcclCommunicator::all_collectives() {
  const std::lock_guard lock(mutex_);
  std::vector<DeviceCollectives*> all = {world_.get()};
  for (const auto& [process_groups, group] : groups_) all.push_back(group.get());
  return all;
}

DeviceCollectives& NcclCommunicator::collectives_of(const ProcessGroups& process_groups) {
  if (process_groups.size() == 1) return *world_;
  if (const auto found = groups_.find(process_groups); found != groups_.end()) return *found->second;
  const auto own = std::ranges::find_if(process_groups, [&](const std::vector<int>& process_group) {
    return std::ranges::find(process_group, process()) != process_group.end();
  });
  std::unique_ptr<DeviceCollectives> made;
  watch_.during([&] { made = world_->split(static_cast<int>(own - process_groups.begin()), process()); });
  const std::lock_guard lock(mutex_);
  return *groups_.emplace(process_groups, std::move(made)).first->second;
}

std::unique_ptr<RemoteCollective> NcclCommunicator::prepare(std::vector<RemotePart> parts,
                                                            const std::string&) {
  DevicePlan plan = plan_on_device(parts, process(), processes());
  DeviceCollectives& library = plan.is_by_library ? collectives_of(*parts.front().process_groups) : *world_;
  return make_planned_collective({.device = device_,
                                  .library = library,
                                  .stream = stream_,
                                  .scratch = scratch_,
                                  .watch = watch_,
                                  .guard = parts.front().guard},
                                 std::move(plan));
}

/// The host knows which process is lost, though sometimes a little later than the device notices a loss.
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

/// Aborts all groups at once. Each may wait for recordings that the host releases after it has seen the
/// error, which happens only when the last group has ended.
void NcclCommunicator::abort() {
  std::vector<std::thread> threads;
  for (DeviceCollectives* group : all_collectives()) threads.emplace_back([group] { group->abort(); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace mtf::cuda
