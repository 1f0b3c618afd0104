#include "tests/emulated_gpu/emulated_device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <numeric>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "tests/emulated_gpu/grid.h"

namespace mtf::cuda {
namespace emulator {
namespace {

/// Fills pinned memory from the time when a copy to it is enqueued until it is copied: a NaN in each float.
constexpr int kNotCopiedYet = 0xff;
constexpr int64_t kBlockBytes = 2 << 20;

std::vector<int64_t> sizes_of(const std::map<std::byte*, std::unique_ptr<Memory>>& memory) {
  std::vector<int64_t> sizes;
  for (const auto& [data, allocation] : memory) sizes.push_back(allocation->bytes());
  return sizes;
}

class EmulatedPinnedMemory final : public PinnedMemory {
 public:
  explicit EmulatedPinnedMemory(int64_t bytes) : memory_(Memory::Kind::kPinned, bytes) {}
  ~EmulatedPinnedMemory() override {
    const std::lock_guard lock(emulator_mutex());
    run_all_streams();
  }
  std::byte* data() override { return memory_.data(); }

 private:
  Memory memory_;
};

class EmulatedRecording final : public Recording {
 public:
  EmulatedRecording(EmulatedDevice& device, std::vector<RecordedWork> work)
      : device_(device), work_(std::move(work)) {}
  void replay() override {
    for (const RecordedWork& recorded : work_)
      device_.enqueue(device_.compute(), recorded.work, recorded.when);
  }
  int64_t nodes() const override { return std::ssize(work_); }

 private:
  EmulatedDevice& device_;
  std::vector<RecordedWork> work_;
};

class EmulatedClock final : public DeviceClock {
 public:
  explicit EmulatedClock(EmulatedDevice& device) : device_(device) {}
  void mark() override {
    device_.check_not_recording("mark()");
    device_.enqueue(device_.compute(), [times = times_] { times->push_back(Profile::now()); });
  }
  std::vector<int64_t> read() override {
    device_.wait(device_.compute());
    return std::exchange(*times_, {});
  }

 private:
  EmulatedDevice& device_;
  const std::shared_ptr<std::vector<int64_t>> times_ = std::make_shared<std::vector<int64_t>>();
};

}  // namespace

EmulatedDevice::EmulatedDevice(DeviceInfo info)
    : info_(std::move(info)), matmuls_(make_matmul_library(*this)) {
  make_stream();
}

EmulatedDevice::~EmulatedDevice() {
  const std::lock_guard lock(emulator_mutex());
  run_all_streams();
  MTF_CHECK(memory_.empty() && mapped_.empty(), "{} of GPU {} not freed",
            counted(static_cast<int64_t>(memory_.size() + mapped_.size()), "allocation"), info_.index);
}

DeviceMemoryState EmulatedDevice::memory_state() {
  const std::lock_guard lock(emulator_mutex());
  DeviceMemoryState state{.total = info_.memory_bytes, .block = kBlockBytes};
  state.free = std::max<int64_t>(0, state.total - state.taken(sizes_of(memory_)));
  return state;
}

std::byte* EmulatedDevice::allocate(int64_t bytes) {
  const std::lock_guard lock(emulator_mutex());
  check_not_recording("allocate()");
  MTF_CHECK(bytes > 0, "{} bytes of memory", bytes);
  const DeviceMemoryState state = memory_state();
  std::vector<int64_t> sizes = sizes_of(memory_);
  sizes.push_back(bytes);
  if (state.taken(sizes) > state.total) {
    throw Error(ErrorKind::kMemory,
                fmt::format("GPU {} ({}) has {} of {} bytes free; {} are needed", info_.index, info_.name,
                            state.free, state.total, bytes),
                "use smaller batches, `train.microbatches`, or split more dimensions");
  }
  auto memory = std::make_unique<Memory>(Memory::Kind::kDevice, bytes);
  std::byte* data = memory->data();
  memory_.emplace(data, std::move(memory));
  return data;
}

void EmulatedDevice::free(std::byte* memory) {
  const std::lock_guard lock(emulator_mutex());
  check_not_recording("free()");
  const auto found = memory_.find(memory);
  MTF_CHECK(found != memory_.end(), "free() of what is not allocated on GPU {}", info_.index);
  run_all_streams();
  memory_.erase(found);
}

std::byte* EmulatedDevice::allocate_mapped(int64_t bytes) {
  const std::lock_guard lock(emulator_mutex());
  check_not_recording("allocate_mapped()");
  auto memory = std::make_unique<Memory>(Memory::Kind::kDevice, bytes);
  std::byte* data = memory->data();
  mapped_.emplace(data, std::move(memory));
  return data;
}

void EmulatedDevice::free_mapped(std::byte* memory) {
  const std::lock_guard lock(emulator_mutex());
  check_not_recording("free_mapped()");
  run_all_streams();
  MTF_CHECK(mapped_.erase(memory) == 1, "free_mapped() of what is not allocated on GPU {}", info_.index);
}

std::unique_ptr<PinnedMemory> EmulatedDevice::allocate_pinned(int64_t bytes) {
  const std::lock_guard lock(emulator_mutex());
  check_not_recording("allocate_pinned()");
  return std::make_unique<EmulatedPinnedMemory>(bytes);
}

Stream EmulatedDevice::make_stream() {
  const std::lock_guard lock(emulator_mutex());
  const char* order = std::getenv("MTF_EMULATED_STREAMS");
  const bool early = order != nullptr && std::string_view(order) == "early";
  streams_.push_back(std::make_unique<EmulatedStream>(*this, early && !streams_.empty()));
  return streams_.back()->handle();
}

void EmulatedDevice::enqueue(Stream stream, Work work, When when) {
  const std::lock_guard lock(emulator_mutex());
  EmulatedStream::of(stream).enqueue(std::move(work), when);
}

void EmulatedDevice::check_memory(Stream stream, const std::byte* begin, int64_t bytes) const {
  const std::lock_guard lock(emulator_mutex());
  const Memory* memory = Memory::find(begin, bytes);
  MTF_CHECK(memory != nullptr, "{} bytes at {} are neither memory of a device nor pinned memory", bytes,
            static_cast<const void*>(begin));
  MTF_CHECK(memory->kind() == Memory::Kind::kDevice || !EmulatedStream::of(stream).captured(),
            "pinned memory in a recording");
}

void EmulatedDevice::copy(Stream stream, std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes == 0) return;
  check_memory(stream, to, bytes);
  check_memory(stream, from, bytes);
  MTF_CHECK(to + bytes <= from || from + bytes <= to, "a copy of {} bytes onto themselves", bytes);
  const auto size = static_cast<size_t>(bytes);
  const std::lock_guard lock(emulator_mutex());
  std::vector<std::byte> expected;  // the bytes that the host wants to be copied
  if (Memory::find(from, bytes)->kind() == Memory::Kind::kPinned) expected.assign(from, from + bytes);
  if (Memory::find(to, bytes)->kind() == Memory::Kind::kPinned) std::memset(to, kNotCopiedYet, size);
  enqueue(stream, [=, expected = std::move(expected)] {
    MemoryAccess::open(to);
    MemoryAccess::open(from);
    MTF_CHECK(expected.empty() || std::memcmp(from, expected.data(), size) == 0,
              "the host has changed pinned memory that was not copied yet");
    std::memcpy(to, from, size);
  });
}

void EmulatedDevice::zero(Stream stream, std::byte* to, int64_t bytes) {
  if (bytes == 0) return;
  check_memory(stream, to, bytes);
  enqueue(stream, [=] {
    MemoryAccess::open(to);
    std::memset(to, 0, static_cast<size_t>(bytes));
  });
}

void EmulatedDevice::load_attention_library() {
  const char* variable = std::getenv("MTF_EMULATED_CUDNN");
  if (variable != nullptr && std::string_view(variable) == "none") {
    throw Error(ErrorKind::kSystem, "cannot load a library of CUDA: libcudnn.so.9: no such file",
                "install it");
  }
  attention_ = make_attention_library(*this);
}

void EmulatedDevice::wait(Stream stream) {
  const std::lock_guard lock(emulator_mutex());
  check_not_recording("wait()");
  EmulatedStream::of(stream).run_all();
  faults_.check("waiting for the GPU");
}

std::unique_ptr<Recording> EmulatedDevice::record(const std::function<void()>& enqueue) {
  const std::lock_guard lock(emulator_mutex());
  check_not_recording("record()");
  Capture capture(*streams_.front());
  recording_ = true;
  struct End {
    bool& recording;
    ~End() { recording = false; }
  } const end{recording_};
  enqueue();
  std::vector<RecordedWork> work = capture.finish();
  if (faults_.fails_graph()) {
    throw Error(ErrorKind::kMemory,
                "CUDA, making a graph of what was recorded: out of memory (cudaErrorMemoryAllocation)");
  }
  return std::make_unique<EmulatedRecording>(*this, std::move(work));
}

std::unique_ptr<DeviceClock> EmulatedDevice::make_clock() { return std::make_unique<EmulatedClock>(*this); }

void EmulatedDevice::check_not_recording(const char* call) const {
  MTF_CHECK(!recording_, "{} is called while work is recorded", call);
}

void launch(Stream stream, const LaunchShape& shape, int max_threads, const bool* guard, Body body) {
  check_shape(shape, max_threads, body);
  if (shape.blocks == 0) return;
  const std::lock_guard lock(emulator_mutex());
  EmulatedDevice& device = EmulatedStream::of(stream).device();
  FaultInjection& faults = device.faults();
  if (device.is_recording() && faults.fails_capture()) {
    throw Error(ErrorKind::kSystem,
                "CUDA, starting a kernel: operation failed due to a previous error during capture "
                "(cudaErrorStreamCaptureInvalidated)");
  }
  device.enqueue(stream, [&device, &faults, shape, guard, body = std::move(body)] {
    if (faults.looks_for_kernel() && faults.fails_kernel(kernel_name(body))) return;
    MemoryAccess::open_all();
    if (guard == nullptr || *guard) run_grid(shape, body, device.next_launch());
  });
}

}  // namespace emulator

namespace {

/// MTF_EMULATED_MEMORY: the memory of each device, in bytes.
int64_t device_memory_bytes() {
  const char* bytes = std::getenv("MTF_EMULATED_MEMORY");
  return bytes == nullptr ? int64_t{16} << 30 : std::atoll(bytes);
}

/// The numbers of the machine's GPUs that this process sees: MTF_EMULATED_DEVICES of them, or those that
/// CUDA_VISIBLE_DEVICES names.
std::vector<int> visible_numbers() {
  const char* count = std::getenv("MTF_EMULATED_DEVICES");
  std::vector<int> all(static_cast<size_t>(count == nullptr ? 1 : std::atoi(count)));
  std::iota(all.begin(), all.end(), 0);
  const char* named = std::getenv("CUDA_VISIBLE_DEVICES");
  if (named == nullptr) return all;
  std::vector<int> numbers;
  std::istringstream words(named);
  for (std::string word; std::getline(words, word, ',');)
    if (const int number = std::atoi(word.c_str()); number < std::ssize(all)) numbers.push_back(number);
  return numbers;
}

/// A driver starts threads when it is first used, with the signal mask of the caller.
void start_driver_thread() {
  [[maybe_unused]] static const bool started = [] {
    std::thread([] {
      for (;;) ::pause();
    }).detach();
    return true;
  }();
}

}  // namespace

std::vector<DeviceInfo> visible_devices() {
  if (std::getenv("MTF_EMULATED_DRIVER_THREAD") != nullptr) start_driver_thread();
  const std::vector<int> numbers = visible_numbers();
  const auto count = static_cast<int>(numbers.size());
  if (count == 0)
    throw Error(ErrorKind::kNoDevice, "there is no GPU that CUDA can use", "use `devices: cpu`");
  std::vector<DeviceInfo> devices;
  for (int index = 0; index < count; ++index) {
    devices.push_back({.index = index,
                       .name = "emulated GPU",
                       .memory_bytes = device_memory_bytes(),
                       .pci = fmt::format("0000:{:02x}:00.0", numbers[static_cast<size_t>(index)] + 1),
                       .major = 9,
                       .minor = 0,
                       .multiprocessors = 4,
                       .peers = std::vector<bool>(static_cast<size_t>(count), true)});
  }
  return devices;
}

std::unique_ptr<Device> open_device(int index) {
  const std::vector<DeviceInfo> devices = visible_devices();
  if (index < 0 || index >= std::ssize(devices)) {
    throw Error(ErrorKind::kSystem,
                fmt::format("there is no GPU {}: {} visible", index,
                            counted(std::ssize(devices), "GPU") + (devices.size() == 1 ? " is" : " are")),
                "`mtf-train --list-devices` lists them");
  }
  return std::make_unique<emulator::EmulatedDevice>(devices[static_cast<size_t>(index)]);
}

}  // namespace mtf::cuda
