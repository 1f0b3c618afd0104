#include "engine/backend/backend.h"

namespace mtf {

std::vector<int64_t> packed_offsets(const CopySources& sources) {
  std::vector<int64_t> offsets{0};
  for (const auto& source : sources)
    offsets.push_back(offsets.back() + (static_cast<int64_t>(source.size()) + 63) / 64 * 64);
  return offsets;
}

const std::byte* Backend::on_host(const std::byte* data, int64_t bytes, std::vector<std::byte>& buffer) {
  if (is_host()) return data;
  buffer.resize(static_cast<size_t>(bytes));
  read(buffer.data(), data, bytes);
  return buffer.data();
}

}  // namespace mtf
