#include "engine/comm/security/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <thread>

#include "engine/base/print_message.h"

namespace mtf {
namespace {

constexpr std::string_view kMakeOne = "for example one that `openssl rand -hex 32` makes";
constexpr std::streamsize kLongest = 4096;

bool is_loopback(const std::string& numbers) { return HostPort{numbers, 0}.is_loopback(); }

/// Returns the secret without the blanks and newlines around it.
std::string trimmed(const std::string& text) {
  constexpr const char* kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

std::string shortness(const std::string& secret) {
  return fmt::format("has a secret of {} characters, which can be guessed", secret.size());
}

/// The addresses of this machine's name `host`, which may become known within `patience`, but at most kMostPatience.
Resolved known_addresses_of(const std::string& host, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kMostPatience(60'000), kBetween(250);
  const auto end = std::chrono::steady_clock::now() + std::min(patience, kMostPatience);
  Resolved resolved = addresses_of(host);
  if (resolved.numbers.empty() && patience.count() > 0)
    print_message("nobody knows the name `{}` of this machine yet ({}): waiting for it\n", host,
                  resolved.error);
  while (resolved.numbers.empty() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kBetween);
    resolved = addresses_of(host);
  }
  return resolved;
}

std::string hint() { return fmt::format("at least {} characters, {}", Secret::kShortest, kMakeOne); }

Secret read_secret(const std::string& path, const Mark& mark) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kLongest + 1, '\0');
  file.read(text.data(), std::ssize(text));
  text.resize(static_cast<size_t>(file.gcount()));
  if (!file.is_open() || file.bad() || (!file.eof() && file.fail()))
    throw Error(ErrorKind::kConfig, mark,
                fmt::format("`cluster.secret_file`: `{}` cannot be read ({})", path, system_message(errno)),
                "a file that all processes of the run have, and nobody else can read");
  if (std::ssize(text) > kLongest)
    throw Error(ErrorKind::kConfig, mark,
                fmt::format("`cluster.secret_file`: `{}` has more than {} bytes", path, kLongest),
                std::string(kMakeOne));
  text = trimmed(text);
  if (text.size() < Secret::kShortest)
    throw Error(ErrorKind::kConfig, mark,
                fmt::format("`cluster.secret_file`: `{}` {}", path, shortness(text)), hint());
  return Secret(text);
}

/// True for names that every machine uses for itself.
bool is_name_of_loopback(const std::string& host) {
  return host == "localhost" || host.ends_with(".localhost") || host.starts_with("localhost.") ||
         host == "ip6-localhost" || host == "ip6-loopback";
}

}  // namespace

void Access::require(const std::string& numbers, const HostPort& address) const {
  if (is_wide() || is_loopback(numbers)) return;
  const std::string where = to_string(address);
  throw Error(ErrorKind::kConfig,
              fmt::format("{} can be reached from other machines{}, and the processes share no secret: "
                          "anybody could join the run",
                          where, numbers == address.host ? "" : fmt::format(" ({})", numbers)),
              fmt::format("{} in the environment of all processes, or `cluster.secret_file`, {}; "
                          "`cluster.insecure: true` does without",
                          kSecretVariable, kMakeOne));
}

void Access::require(const HostPort& address) const {
  const std::vector<std::string> numbers = addresses_of(address.host).numbers;
  if (!numbers.empty() && std::ranges::none_of(numbers, is_loopback)) require(numbers.front(), address);
}

Access find_access(const ClusterOptions& options, const Environment& environment) {
  Access access{.secret = {}, .insecure = options.insecure};
  const auto variable = environment.find(kSecretVariable);
  const std::string given = variable == environment.end() ? "" : trimmed(variable->second);
  if (!given.empty()) {
    if (given.size() < Secret::kShortest)
      throw Error(ErrorKind::kUsage,
                  fmt::format("the environment variable {} {}", kSecretVariable, shortness(given)), hint());
    access.secret = Secret(given);
  } else if (options.secret_file) {
    access.secret = read_secret(*options.secret_file, options.mark("secret_file"));
  }
  return access;
}

Listening listen_for_members(const HostPort& address, const Access& access, std::string_view what,
                             std::chrono::milliseconds patience) {
  Resolved resolved = known_addresses_of(address.host, patience);
  if (resolved.numbers.empty())
    throw Error(ErrorKind::kSystem,
                fmt::format("cannot serve {} at the host `{}`, which is unknown ({})", what, address.host,
                            resolved.error),
                "the name or address of this machine");
  const bool only_here = std::ranges::all_of(resolved.numbers, is_loopback);
  Listening listening;
  if (!access.is_wide()) {
    access.require(address);
    std::erase_if(resolved.numbers, [](const std::string& numbers) { return !is_loopback(numbers); });
    listening = listen_at(resolved.numbers, address.port);
  } else if (only_here && !resolved.is_number && !is_name_of_loopback(address.host)) {
    listening = listen_everywhere(address.port);
  } else {
    listening = listen_at(resolved.numbers, address.port);
  }
  if (!listening.sockets.empty()) return listening;
  const bool is_elsewhere = listening.error == EADDRNOTAVAIL;
  throw Error(ErrorKind::kSystem,
              fmt::format("cannot serve {} at port {}{}: {}", what, address.port,
                          is_elsewhere ? " of " + address.host : "", system_message(listening.error)),
              is_elsewhere ? "an address that this machine has" : "");
}

}  // namespace mtf
