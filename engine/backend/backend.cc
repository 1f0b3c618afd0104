#include "engine/backend/backend.h"

namespace mtf {

const std::byte* Backend::on_host(const std::byte* data, int64_t bytes, std::vector<std::byte>& buffer) {
  if (is_host()) return data;
  buffer.resize(static_cast<size_t>(bytes));
  read(buffer.data(), data, bytes);
  return buffer.data();
}

}  // namespace mtf
