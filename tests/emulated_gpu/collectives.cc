// Emulates NCCL's primitives over a communicator of the host: every process sends its data to all, and each
// takes what is meant for it. Calls run when they are enqueued or replayed, which is in the same order in all
// processes.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "engine/backend/cuda/collectives/device_collectives.h"
#include "engine/base/check.h"
#include "tests/emulated_gpu/emulated_device.h"

namespace mtf::cuda {
namespace emulator {
namespace {

/// A call within run(). All members of a group make their collective calls in the same order; sends and
/// receives between two members match in order.
struct Call {
  enum class Kind { kAllReduce, kReduceScatter, kAllGather, kSend, kReceive };
  Kind kind;
  const std::byte* in;
  std::byte* out;
  int64_t bytes;  ///< size of `in`, or of what is received
  DType dtype;    ///< type of sums
  int peer = -1;  ///< rank of the other process
};

/// The messages of one process: data for one other process, by its number, or for the whole group (kAll),
/// each in the order of sending.
class Messages {
 public:
  static constexpr int kAll = -1;

  Messages() = default;
  explicit Messages(const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      Header header;
      std::memcpy(&header, text.data() + at, sizeof header);
      at += sizeof header;
      queues_[header.to].push_back(text.substr(at, header.bytes));
      at += header.bytes;
    }
  }
  static void append(std::string& text, int to, const std::byte* data, int64_t bytes) {
    const Header header{to, static_cast<size_t>(bytes)};
    text.append(reinterpret_cast<const char*>(&header), sizeof header);
    text.append(reinterpret_cast<const char*>(data), header.bytes);
  }
  std::string take(int to, int64_t bytes) {
    std::deque<std::string>& queue = queues_[to];
    MTF_CHECK(!queue.empty() && std::ssize(queue.front()) == bytes, "no message of {} bytes", bytes);
    std::string data = std::move(queue.front());
    queue.pop_front();
    return data;
  }

 private:
  struct Header {
    int to;
    size_t bytes;
  };
  std::map<int, std::deque<std::string>> queues_;
};

template <class T>
void add_elements(const std::string& terms, std::byte* sums, int64_t begin, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += static_cast<int64_t>(sizeof(T))) {
    T sum, term;
    std::memcpy(&sum, sums + i, sizeof(T));
    std::memcpy(&term, terms.data() + begin + i, sizeof(T));
    sum += term;
    std::memcpy(sums + i, &sum, sizeof(T));
  }
}

void add(DType dtype, const std::string& terms, std::byte* sums, int64_t begin, int64_t bytes) {
  switch (dtype) {
    case DType::kFloat32:
      return add_elements<float>(terms, sums, begin, bytes);
    case DType::kFloat64:
      return add_elements<double>(terms, sums, begin, bytes);
    case DType::kInt32:
      return add_elements<int32_t>(terms, sums, begin, bytes);
    case DType::kInt64:
      return add_elements<int64_t>(terms, sums, begin, bytes);
    default:
      MTF_CHECK(false, "sums of {}", short_name(dtype));
  }
}

class EmulatedCollectives final : public DeviceCollectives {
 public:
  /// `processes` are indexed by rank.
  EmulatedCollectives(Communicator& host, std::vector<int> processes)
      : host_(host), processes_(std::move(processes)) {
    while (processes_[static_cast<size_t>(rank_)] != host.process()) ++rank_;
  }

  std::unique_ptr<DeviceCollectives> split(int color, int key) override {
    std::string own(2 * sizeof(int), '\0');
    std::memcpy(own.data(), &color, sizeof(int));
    std::memcpy(own.data() + sizeof(int), &key, sizeof(int));
    const std::vector<std::string> all = mtf::all_gather(host_, own, "emulated split");
    std::map<int, int> members;  ///< by key
    for (const int process : processes_) {
      const std::string& text = all[static_cast<size_t>(process)];
      int other_key;
      std::memcpy(&other_key, text.data() + sizeof(int), sizeof(int));
      if (std::memcmp(text.data(), own.data(), sizeof(int)) == 0) members[other_key] = process;
    }
    std::vector<int> processes;
    for (const auto& [rank, process] : members) processes.push_back(process);
    return std::make_unique<EmulatedCollectives>(host_, std::move(processes));
  }

  void run(Stream stream, const std::function<void()>& calls) override {
    calls_.clear();
    calls();
    EmulatedStream& emulated = EmulatedStream::of(stream);
    emulated.device().enqueue(
        stream, [this, calls = std::move(calls_)] { run_now(calls); }, When::kAtOnce);
  }

  void all_reduce(const std::byte* in, std::byte* out, int64_t count, DType dtype) override {
    const int64_t bytes = count * static_cast<int64_t>(size_of(dtype));
    calls_.push_back({Call::Kind::kAllReduce, in, out, bytes, dtype});
  }
  void reduce_scatter(const std::byte* in, std::byte* out, int64_t count, DType dtype) override {
    const int64_t bytes = count * static_cast<int64_t>(size_of(dtype)) * std::ssize(processes_);
    calls_.push_back({Call::Kind::kReduceScatter, in, out, bytes, dtype});
  }
  void all_gather(const std::byte* in, std::byte* out, int64_t bytes) override {
    calls_.push_back({Call::Kind::kAllGather, in, out, bytes, DType::kBool});
  }
  void send(const std::byte* data, int64_t bytes, int peer) override {
    calls_.push_back({Call::Kind::kSend, data, nullptr, bytes, DType::kBool, peer});
  }
  void receive(std::byte* data, int64_t bytes, int peer) override {
    calls_.push_back({Call::Kind::kReceive, nullptr, data, bytes, DType::kBool, peer});
  }

  void check() override {}
  void abort() noexcept override {}

 private:
  int process(int rank) const { return processes_[static_cast<size_t>(rank)]; }

  void run_now(const std::vector<Call>& calls) {
    MemoryAccess::open_all();
    std::string own;
    for (const Call& call : calls) {
      if (call.in != nullptr)
        Messages::append(own, call.peer < 0 ? Messages::kAll : process(call.peer), call.in, call.bytes);
    }
    const std::vector<std::string> texts = mtf::all_gather(host_, std::move(own), "emulated NCCL");
    std::vector<Messages> messages;
    for (const int process : processes_) messages.emplace_back(texts[static_cast<size_t>(process)]);
    for (const Call& call : calls) finish(call, messages);
  }

  void finish(const Call& call, std::vector<Messages>& messages) const {
    if (call.kind == Call::Kind::kSend) return;
    if (call.kind == Call::Kind::kReceive) {
      const std::string data = messages[static_cast<size_t>(call.peer)].take(host_.process(), call.bytes);
      std::memcpy(call.out, data.data(), data.size());
      return;
    }
    const bool scatters = call.kind == Call::Kind::kReduceScatter;
    const int64_t bytes = scatters ? call.bytes / std::ssize(processes_) : call.bytes;
    const int64_t begin = scatters ? rank_ * bytes : 0;
    for (size_t rank = 0; rank < messages.size(); ++rank) {
      const std::string data = messages[rank].take(Messages::kAll, call.bytes);
      if (call.kind == Call::Kind::kAllGather) {
        std::memcpy(call.out + static_cast<int64_t>(rank) * bytes, data.data(), data.size());
      } else if (rank == 0) {
        std::memcpy(call.out, data.data() + begin, static_cast<size_t>(bytes));
      } else {
        add(call.dtype, data, call.out, begin, bytes);
      }
    }
  }

  Communicator& host_;
  const std::vector<int> processes_;
  int rank_ = 0;
  std::vector<Call> calls_;  ///< calls made within run()
};

}  // namespace
}  // namespace emulator

/// MTF_EMULATED_NCCL overrides the version.
std::string collectives_version() {
  const char* version = std::getenv("MTF_EMULATED_NCCL");
  return version == nullptr ? "emulated NCCL" : fmt::format("emulated NCCL {}", version);
}

std::unique_ptr<DeviceCollectives> open_collectives(Device&, Communicator& host,
                                                    const CommunicatorTimeouts&) {
  std::vector<int> processes;
  for (int process = 0; process < host.processes(); ++process) processes.push_back(process);
  return std::make_unique<emulator::EmulatedCollectives>(host, std::move(processes));
}

}  // namespace mtf::cuda
