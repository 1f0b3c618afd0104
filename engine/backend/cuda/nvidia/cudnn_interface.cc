#include "engine/backend/cuda/nvidia/cudnn_interface.h"

#include <fmt/format.h>

#include <array>

#include "engine/base/error.h"

namespace mtf::cuda::cudnn {

std::string Functions::last_error() const {
  std::array<char, 1024> text{};
  last_error_text(text.data(), text.size());
  return text.data();
}

void Functions::check(int status, std::string_view doing) const {
  if (status == 0) return;
  const std::string reason = last_error();
  throw Error(ErrorKind::kSystem, fmt::format("cuDNN, {}: {}{}{}", doing, status_text(status),
                                              reason.empty() ? "" : ", ", reason));
}

Descriptor& Descriptor::set(Attribute attribute, const std::vector<Descriptor>& values) {
  std::vector<void*> handles;
  for (const Descriptor& value : values) handles.push_back(value.handle_);
  return set_all(attribute, kDescriptorType, static_cast<int64_t>(handles.size()), handles.data());
}

std::vector<Descriptor> Descriptor::get(Attribute attribute, Kind kind) const {
  const int64_t count = get_all(attribute, kDescriptorType, 0, nullptr);
  std::vector<Descriptor> result;
  std::vector<void*> handles;
  for (int64_t i = 0; i < count; ++i) handles.push_back(result.emplace_back(*cudnn_, kind).handle_);
  const int64_t found = get_all(attribute, kDescriptorType, count, handles.data());
  while (static_cast<int64_t>(result.size()) > found) result.pop_back();
  return result;
}

Descriptor& Descriptor::set_all(Attribute attribute, int type, int64_t count, const void* values) {
  const int number = static_cast<int>(attribute);
  cudnn_->check(cudnn_->set(handle_, number, type, count, values), fmt::format("attribute {}", number));
  return *this;
}

int64_t Descriptor::get_all(Attribute attribute, int type, int64_t most, void* values) const {
  const int number = static_cast<int>(attribute);
  int64_t count = 0;
  cudnn_->check(cudnn_->get(handle_, number, type, most, &count, values),
                fmt::format("asking for attribute {}", number));
  return count;
}

}  // namespace mtf::cuda::cudnn
