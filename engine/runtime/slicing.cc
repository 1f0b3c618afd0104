#include "engine/runtime/slicing.h"

#include "engine/base/check.h"
#include "engine/core/rectangle.h"

namespace mtf {

void copy_to_slice(const Shape& whole, const Shape& slice, const std::vector<int64_t>& begin,
                   size_t element_bytes, const std::byte* from, std::byte* to) {
  copy_rectangle(slice, element_bytes, from, {whole, begin}, to, {slice});
}

void scale_to_slice(const Shape& whole, const Shape& slice, const std::vector<int64_t>& begin,
                    const std::byte* from, float* to) {
  scale_rectangle(slice, from, {whole, begin}, to, {slice});
}

void copy_from_slice(const Shape& whole, const Shape& slice, const std::vector<int64_t>& begin,
                     size_t element_bytes, const std::byte* from, std::byte* to) {
  copy_rectangle(slice, element_bytes, from, {slice}, to, {whole, begin});
}

HostTensor gather_slices(const Shape& shape, DType dtype, const Layout& layout, const HostedMesh& mesh,
                         const std::function<const std::byte*(int64_t position)>& slice,
                         Communicator* communicator, const std::string& name) {
  HostTensor whole(shape, dtype);
  const Shape local = slice_shape(shape, layout, mesh.mesh());
  const size_t bytes = static_cast<size_t>(bytes_of(local, dtype));
  const Copies all_copies = layout.copies();
  const auto put = [&](int64_t position, const std::byte* data) {
    copy_from_slice(shape, local, slice_begin(shape, layout, mesh.mesh(), position), size_of(dtype), data,
                    whole.bytes.data());
  };
  const bool all = mesh.all_hold(all_copies);
  std::string mine;
  const HostedCopies copies = mesh.copies(all_copies);
  for (int64_t copy = 0; copy < copies.size(); ++copy) {
    const int64_t position = copies.position(copy);
    if (all) {
      put(position, slice(position));
    } else if (mesh.holds_first(position, all_copies)) {
      mine.append(reinterpret_cast<const char*>(slice(position)), bytes);
    }
  }
  if (all) return whole;
  MTF_CHECK(communicator != nullptr, "slices of {} are in other processes", name);
  const std::vector<std::string> parts = all_gather(*communicator, std::move(mine), "slices of " + name);
  for (int process = 0; process < mesh.processes(); ++process) {
    const HostedMesh other = mesh.of(process);
    const HostedCopies theirs = other.copies(all_copies);
    const auto* data = reinterpret_cast<const std::byte*>(parts[process].data());
    const std::byte* const end = data + parts[process].size();
    for (int64_t copy = 0; copy < theirs.size(); ++copy) {
      if (!other.holds_first(theirs.position(copy), all_copies)) continue;
      MTF_CHECK(static_cast<size_t>(end - data) >= bytes, "process {} has sent too little of {}", process,
                name);
      put(theirs.position(copy), data);
      data += bytes;
    }
  }
  return whole;
}

}  // namespace mtf
