#include "engine/backend/backend.h"

#include <cstring>
#include <utility>

namespace mtf {
namespace {

class CopyAtOnce final : public MemoryTransfer {
 public:
  explicit CopyAtOnce(std::vector<Part> parts) : parts_(std::move(parts)) {}
  void begin() override {
    for (const Part& part : parts_) std::memcpy(part.to, part.from, static_cast<size_t>(part.bytes));
  }
  void hold_back() override {}

 private:
  const std::vector<Part> parts_;
};

}  // namespace

std::vector<int64_t> packed_offsets(const CopySources& sources) {
  std::vector<int64_t> offsets{0};
  for (const auto& source : sources)
    offsets.push_back(offsets.back() + (static_cast<int64_t>(source.size()) + 63) / 64 * 64);
  return offsets;
}

std::unique_ptr<MemoryTransfer> Backend::make_memory_transfer(std::vector<MemoryTransfer::Part> parts,
                                                              TransferDirection /*direction*/) {
  return std::make_unique<CopyAtOnce>(std::move(parts));
}

const std::byte* Backend::on_host(const std::byte* data, int64_t bytes, std::vector<std::byte>& buffer) {
  if (is_host()) return data;
  buffer.resize(static_cast<size_t>(bytes));
  read(buffer.data(), data, bytes);
  return buffer.data();
}

}  // namespace mtf
