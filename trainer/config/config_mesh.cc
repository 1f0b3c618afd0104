#include "trainer/config/config_mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/config/devices.h"

namespace mtf {
namespace {

/// "1 process with 8, 2 with 4, 4 with 2, 8 with 1": how many positions each of so many processes may have.
std::string legal_splits(int64_t positions) {
  constexpr size_t kMost = 8;
  std::vector<std::string> splits;
  for (int64_t n = 1; n <= positions && splits.size() < kMost; ++n) {
    if (positions % n == 0)
      splits.push_back(fmt::format("{} with {}", n == 1 ? "1 process" : fmt::to_string(n), positions / n));
  }
  return fmt::format("{}", fmt::join(splits, ", "));
}

/// The positions of `mesh` must be those that the processes have.
void check_processes(const Config& config, const Mesh& mesh, const Devices& choice, int processes) {
  const std::optional<int64_t>& devices = choice.positions;
  const Mark mark = config.mark(devices ? "devices" : "mesh");
  const std::string positions = mesh.size() == 1 ? "1 position" : fmt::format("{} positions", mesh.size());
  if (processes == 1) {
    if (!devices || mesh.size() == *devices) return;
    throw Error(ErrorKind::kConfig, config.mark(config.root.find("devices") ? "devices" : "mesh"),
                fmt::format("`mesh` has {} and `devices` has {}", positions, *devices),
                choice.is_cuda
                    ? fmt::format("`devices: cuda:0*{}` puts all positions on one GPU", mesh.size())
                    : fmt::format("`devices: cpu*{}`, or `cpu` for as many as the mesh needs", mesh.size()));
  }
  if (devices ? mesh.size() == *devices * processes : mesh.size() % processes == 0) return;
  throw Error(
      ErrorKind::kConfig, mark,
      devices ? fmt::format("`mesh` has {}, and {} processes with {} each have {}", positions, processes,
                            *devices, *devices * processes)
              : fmt::format("`mesh` has {}, which {} processes cannot share evenly", positions, processes),
      fmt::format("for this mesh: {}", legal_splits(mesh.size())));
}

}  // namespace

Mesh resolve_mesh(const Config& config) {
  const Devices choice = resolve_devices(config);
  const std::optional<int64_t>& devices = choice.positions;
  const int processes = hosting_of(config).processes;
  if (!config.mesh) {
    if (processes > 1) {
      throw Error(
          ErrorKind::kConfig, config.mark("mesh"),
          fmt::format("without `mesh` there is 1 position, which {} processes cannot share", processes),
          fmt::format("for example `mesh: {{all: {}}}` and `layout: {{batch: all}}`", processes));
    }
    if (devices && *devices > 1) {
      throw Error(ErrorKind::kConfig, config.mark("devices"),
                  fmt::format("`devices` has {} positions, and without `mesh` there is 1", *devices),
                  fmt::format("for example `mesh: {{all: {}}}` and `layout: {{batch: all}}`", *devices));
    }
    return Mesh();
  }
  if (config.mesh->is_auto) {
    const int64_t counted = devices.value_or(1) * processes;
    if (!config.mesh->positions && !devices && processes == 1) {
      throw Error(ErrorKind::kConfig, config.mark("mesh"), "`mesh: auto` does not say for how many positions",
                  "`mesh: {auto: 8}`, `devices: cpu*8`, or several processes");
    }
    const Mesh mesh(Shape{{"all", config.mesh->positions.value_or(counted)}});
    check_processes(config, mesh, choice, processes);
    return mesh;
  }
  int64_t given = 1;
  for (const auto& axis : config.mesh->axes) given *= axis.size.value_or(1);
  const int64_t positions = devices.value_or(1) * processes;  // one per process unless `devices` says more
  const bool counted = devices || processes > 1;
  if (counted && config.mesh->has_auto() && positions % given != 0) {
    throw Error(ErrorKind::kConfig, config.mark("mesh"),
                processes == 1
                    ? fmt::format("the sizes of `mesh` ({}) do not divide the {} positions of `devices`",
                                  given, positions)
                    : fmt::format("the sizes of `mesh` ({}) do not divide the {} positions of {} processes",
                                  given, positions, processes),
                fmt::format("sizes whose product divides {}{}", positions,
                            processes == 1 ? "" : ", or `devices: cpu*N` for N positions in each process"));
  }
  const Mesh mesh = config.mesh->resolve(counted ? positions : given);
  check_processes(config, mesh, choice, processes);
  return mesh;
}

}  // namespace mtf
