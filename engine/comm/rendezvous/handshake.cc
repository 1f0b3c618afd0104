#include "engine/comm/rendezvous/handshake.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/process.h"
#include "engine/comm/security/secret.h"

namespace mtf {

namespace {

/// Returns `read` applied to the JSON text.
template <class Read>
auto from_json(const std::string& text, const Read& read) {
  try {
    return read(nlohmann::json::parse(text));
  } catch (const nlohmann::json::exception&) {
    throw Error(
        ErrorKind::kConfig,
        "what a process of the run says of itself cannot be read: it runs another version of the program",
        "the same program in all processes");
  }
}

const std::string* find_field(const Fields& fields, const std::string& name) {
  for (const auto& [field, value] : fields) {
    if (field == name) return &value;
  }
  return nullptr;
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = "";
  ::gethostname(name, HOST_NAME_MAX);
  return name;
}

}  // namespace

std::string ProcessHello::name() const {
  return fmt::format("rank {} ({}, process {})", rank, host, process);
}

ProcessHello hello_of_this_process(const Launch& launch, const std::string& build,
                                   const std::string& address) {
  return {.rank = launch.rank,
          .size = launch.size,
          .build = build,
          .host = host_name(),
          .machine = machine_id(),
          .process = ::getpid(),
          .address = address,
          .store_address = {},
          .nonce = Secret::random().text()};
}

std::string process_name(const Launch& launch) {
  ProcessHello named;
  named.rank = launch.rank;
  named.host = host_name();
  named.process = ::getpid();
  return named.name();
}

std::string to_text(const ProcessHello& hello) {
  return json_text({{"protocol", hello.protocol},
                    {"rank", hello.rank},
                    {"size", hello.size},
                    {"build", hello.build},
                    {"host", hello.host},
                    {"machine", hello.machine},
                    {"process", hello.process},
                    {"address", hello.address},
                    {"store_address", hello.store_address},
                    {"nonce", hello.nonce}});
}

ProcessHello hello_from_text(const std::string& text) {
  return from_json(text, [](const nlohmann::json& json) -> ProcessHello {
    return {.protocol = json.at("protocol"),
            .rank = json.at("rank"),
            .size = json.at("size"),
            .build = json.at("build"),
            .host = json.at("host"),
            .machine = json.value("machine", ""),  // other builds may not have the field
            .process = json.at("process"),
            .address = json.at("address"),
            .store_address = json.value("store_address", ""),
            .nonce = json.value("nonce", "")};
  });
}

std::string to_text(const std::vector<ProcessHello>& members) {
  std::vector<std::string> texts;
  for (const ProcessHello& member : members) texts.push_back(to_text(member));
  return json_text(texts);
}

std::vector<ProcessHello> members_from_text(const std::string& text) {
  std::vector<ProcessHello> members;
  for (const std::string& member :
       from_json(text, [](const nlohmann::json& json) { return json.get<std::vector<std::string>>(); }))
    members.push_back(hello_from_text(member));
  return members;
}

std::string difference(const ProcessHello& first, const ProcessHello& other) {
  if (other.size != first.size) {
    return fmt::format("{} was started as one of {} processes, but {} as one of {}", other.name(), other.size,
                       first.name(), first.size);
  }
  if (other.protocol != first.protocol) {
    return fmt::format("{} runs another version of the program (protocol {}) than {} (protocol {})",
                       other.name(), other.protocol, first.name(), first.protocol);
  }
  if (other.build != first.build) {
    return fmt::format("{} runs another build of the program ({}) than {} ({})", other.name(), other.build,
                       first.name(), first.build);
  }
  return {};
}

void replace_loopback_addresses(std::vector<ProcessHello>& members) {
  const auto is_loopback = [](const std::string& address) { return HostPort{address, 0}.is_loopback(); };
  const auto outside = std::ranges::find_if(members, [&](const ProcessHello& member) {
    return !is_loopback(member.address) && !is_loopback(member.store_address);
  });
  if (outside == members.end()) return;  // all processes are on this machine
  const std::string address = outside->store_address;
  for (ProcessHello& member : members)
    if (is_loopback(member.address)) member.address = address;
}

std::string to_text(const Fields& fields) { return json_text(fields); }

Fields fields_from_text(const std::string& text) {
  return from_json(text, [](const nlohmann::json& json) { return json.get<Fields>(); });
}

std::string difference(const ProcessHello& first, const Fields& first_fields, const ProcessHello& other,
                       const Fields& other_fields) {
  const auto differs = [&](const std::string& name, const std::string& value,
                           const std::string& first_value) {
    return fmt::format("{} differs from {} in {}: {} instead of {}", other.name(), first.name(), name, value,
                       first_value);
  };
  for (const auto& [name, value] : first_fields) {
    const std::string* found = find_field(other_fields, name);
    if (!found) return differs(name, "nothing", value);
    if (*found != value) return differs(name, *found, value);
  }
  for (const auto& [name, value] : other_fields) {
    if (!find_field(first_fields, name)) return differs(name, value, "nothing");
  }
  return {};
}

}  // namespace mtf
