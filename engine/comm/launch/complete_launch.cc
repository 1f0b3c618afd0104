#include "engine/comm/launch/complete_launch.h"

#include <fmt/format.h>

namespace mtf {

Launch launch_alone(std::string_view reason) {
  Launch launch;
  launch.source = reason.empty() ? "one process" : fmt::format("one process ({})", reason);
  return launch;
}

void meet_at(Launch& launch, const HostPort& address) {
  launch.host = address.host;
  launch.port = address.port;
}

void complete_launch(Launch& launch, std::string_view reason) {
  if (launch.local_rank == 0 && launch.local_size == 1 && HostPort{launch.host, launch.port}.is_loopback()) {
    launch.local_rank = launch.rank;
    launch.local_size = launch.size;
  }
  launch.source = fmt::format("process {} of {} ({}); meets the others at {}", launch.rank, launch.size,
                              reason, to_string(HostPort{launch.host, launch.port}));
  if (launch.store_is_served) launch.source += ", which the launcher serves";
}

}  // namespace mtf
