#include "engine/backend/planned_device.h"

#include <fmt/format.h>

#include <utility>

#include "engine/base/check.h"

namespace mtf {
namespace {

class PlannedKernel final : public Kernel {
 public:
  int64_t tasks() const override { return 1; }
  int64_t run(const KernelCall&, int64_t, int64_t) const override {
    MTF_CHECK(false, "a kernel is run on a GPU that is not here");
  }
};

class PlannedDevice final : public Backend {
 public:
  PlannedDevice(const std::string& name, const std::string& reason)
      : notes_{{false,
                fmt::format("{}: the plan is for {}, without the scratch memory of kernels and what driver "
                            "and libraries take",
                            reason, name)}} {
    info_.name = name;
  }

  std::unique_ptr<DeviceMemory> allocate(int64_t) override { absent("allocate()"); }
  std::unique_ptr<Kernel> prepare(const KernelContext&) override { return std::make_unique<PlannedKernel>(); }
  std::unique_ptr<Kernel> prepare(const Move&) override { return std::make_unique<PlannedKernel>(); }
  std::unique_ptr<PreparedCollective> prepare(const Collective&) override { absent("prepare()"); }
  std::string instruction_set() const override { return "none"; }
  const DeviceInfo* device_info() const override { return &info_; }
  bool is_host() const override { return false; }
  void write(std::byte*, const std::byte*, int64_t) override { absent("write()"); }
  void read(std::byte*, const std::byte*, int64_t) override { absent("read()"); }
  void copy(std::byte*, const std::byte*, int64_t) override { absent("copy()"); }
  void copy_blocks(std::span<const BlockCopy>) override { absent("copy_blocks()"); }
  std::unique_ptr<BlockTransfer> make_block_transfer(std::byte*, int64_t) override {
    absent("make_block_transfer()");
  }
  std::unique_ptr<HostCopy> make_host_copy(CopySources, CopyOrder) override { absent("make_host_copy()"); }
  std::unique_ptr<Recording> record(const std::function<void()>&) override { absent("record()"); }
  bool fuses_elementwise() override { return true; }
  std::vector<BackendNote> take_notes() override { return std::exchange(notes_, {}); }

 private:
  [[noreturn]] static void absent(const char* call) {
    MTF_CHECK(false, "{} is called for a GPU that is not here", call);
  }

  DeviceInfo info_;
  std::vector<BackendNote> notes_;
};

}  // namespace

std::unique_ptr<Backend> make_planned_device(const std::string& name, const std::string& reason) {
  return std::make_unique<PlannedDevice>(name, reason);
}

}  // namespace mtf
