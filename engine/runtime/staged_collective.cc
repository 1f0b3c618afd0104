#include "engine/runtime/staged_collective.h"

#include <algorithm>
#include <utility>

namespace mtf {
namespace {

class StagedCollective final : public RemoteCollective {
 public:
  StagedCollective(std::unique_ptr<RemoteCollective> collective, StagedSlices inputs, StagedSlices results)
      : collective_(std::move(collective)), inputs_(std::move(inputs)), results_(std::move(results)) {}

  void start() override {
    inputs_.read();
    collective_->start();
  }
  void wait() override {
    collective_->wait();
    results_.write();
  }
  double bytes_sent() const override { return collective_->bytes_sent(); }

 private:
  std::unique_ptr<RemoteCollective> collective_;
  StagedSlices inputs_, results_;
};

}  // namespace

std::byte* StagedSlices::host(std::byte* device, int64_t bytes) {
  const auto found =
      std::ranges::find_if(entries_, [&](const auto& entry) { return entry->device == device; });
  if (found != entries_.end()) return (*found)->host.data();
  entries_.push_back(
      std::make_unique<Entry>(Entry{device, std::vector<std::byte>(static_cast<size_t>(bytes))}));
  return entries_.back()->host.data();
}

void StagedSlices::read() {
  for (const auto& entry : entries_)
    backend_.read(entry->host.data(), entry->device, static_cast<int64_t>(entry->host.size()));
}

void StagedSlices::write() {
  for (const auto& entry : entries_)
    backend_.write(entry->device, entry->host.data(), static_cast<int64_t>(entry->host.size()));
}

std::unique_ptr<RemoteCollective> make_staged_collective(std::unique_ptr<RemoteCollective> collective,
                                                         StagedSlices inputs, StagedSlices results) {
  return std::make_unique<StagedCollective>(std::move(collective), std::move(inputs), std::move(results));
}

}  // namespace mtf
