// Copies between a whole tensor on the host and the slices of positions.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/core/hosted_mesh.h"
#include "engine/core/layout.h"
#include "engine/runtime/host_tensor.h"

namespace mtf {

/// Both row-major; `begin`: global index of the slice's first element along each axis. Allocates nothing.
void copy_to_slice(const Shape& whole, const Shape& slice, const std::vector<int64_t>& begin,
                   size_t element_bytes, const std::byte* from, std::byte* to);
void copy_from_slice(const Shape& whole, const Shape& slice, const std::vector<int64_t>& begin,
                     size_t element_bytes, const std::byte* from, std::byte* to);

/// The whole of a value, put together from the slices that the positions hold: those of this process, which
/// `slice` gives (each until it is called again), and, where it does not hold them all, those of the others
/// (then a collective: every process calls it).
HostTensor gather_slices(const Shape& shape, DType dtype, const Layout& layout, const HostedMesh& mesh,
                         const std::function<const std::byte*(int64_t position)>& slice,
                         Communicator* communicator, const std::string& name);

}  // namespace mtf
