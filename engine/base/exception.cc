#include "engine/base/exception.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "engine/base/print_message.h"
#include "engine/base/process.h"

namespace mtf {
namespace {

/// Removes the name in brackets from "[json.exception.type_error.302] type must be string".
std::string_view without_name(std::string_view what) {
  const size_t end = what.starts_with('[') ? what.find("] ") : std::string_view::npos;
  return end == std::string_view::npos ? what : what.substr(end + 2);
}

}  // namespace

Error lost_output(int error) {
  if (error == EPIPE) end_by_broken_pipe();
  return {ErrorKind::kSystem, "cannot write standard output: " + system_message(error)};
}

Error as_error(const std::exception& error, std::string_view program) {
  if (const auto* own = dynamic_cast<const Error*>(&error)) return *own;
  // A container of more elements than any memory can hold throws `length_error`.
  if (dynamic_cast<const std::bad_alloc*>(&error) || dynamic_cast<const std::length_error*>(&error))
    return {ErrorKind::kMemory, fmt::format("{}: there is not enough memory", program),
            "less at a time, or a machine or a control group with more"};
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return {ErrorKind::kSystem,
            fmt::format("{}: {}", file->path1().string(), system_message(file->code().value()))};
  if (const auto* refused = dynamic_cast<const std::system_error*>(&error)) {
    if (std::ferror(stdout) != 0) return lost_output(refused->code().value());  // fmt::print has thrown it
    const bool no_more = refused->code() == std::errc::resource_unavailable_try_again;
    return {ErrorKind::kSystem,
            fmt::format("{}: the system refuses {}: {}", program,
                        no_more ? "another thread" : "what it was asked for", refused->code().message()),
            no_more ? "fewer threads (`run.threads`), or higher limits (`ulimit -u`, `ulimit -v`)" : ""};
  }
  return {ErrorKind::kSystem,
          fmt::format("{}: a mistake in the program: {}", program, without_name(error.what())),
          "please report it with the command"};
}

void check_standard_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) throw lost_output(errno);
}

int report_failure(const std::exception& error, std::string_view program) {
  const Error described = as_error(error, program);
  print_message("{}\n", described.what());
  return described.exit_code();
}

}  // namespace mtf
