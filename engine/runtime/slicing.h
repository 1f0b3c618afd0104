// Copies between a whole tensor on the host and the slices of positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/core/hosted_mesh.h"
#include "engine/core/layout.h"
#include "engine/runtime/host_tensor.h"

namespace mtf {

/// Whole tensor and slice are row-major; `begin` is the global index of the slice's first element along each
/// axis. These functions do not allocate.
void copy_to_slice(const Shape& whole, const Shape& slice, const std::vector<int64_t>& begin,
                   size_t element_bytes, const std::byte* from, std::byte* to);
/// The same from bytes, of which 255 becomes 1.
void scale_to_slice(const Shape& whole, const Shape& slice, const std::vector<int64_t>& begin,
                    const std::byte* from, float* to);
void copy_from_slice(const Shape& whole, const Shape& slice, const std::vector<int64_t>& begin,
                     size_t element_bytes, const std::byte* from, std::byte* to);

/// The whole tensor, assembled from the slices that the positions hold. `slice` gives the slices of this
/// process; each must stay valid until the next call. If this process does not hold all slices, the others
/// come from the other processes: then it is a collective that every process must call. `name` is used in
/// messages.
HostTensor gather_slices(const Shape& shape, DType dtype, const Layout& layout, const HostedMesh& mesh,
                         const std::function<const std::byte*(int64_t position)>& slice,
                         Communicator* communicator, const std::string& name);

}  // namespace mtf
