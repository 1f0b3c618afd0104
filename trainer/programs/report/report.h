// Runs run.mode=report: writes a page about one run or several, finished or running, from what lies in their
// directories. Nothing of a run is loaded, and memory does not grow with its length.
//
//   write_report({"runs/one", "runs/mesh"}, {});    // runs/one/report.html
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace mtf {

/// The command line of a report.
struct ReportRequest {
  std::vector<std::string> runs;  ///< directories
  ReportOptions options;
};

/// Returns the request if `files`, the words of a command line that are no arguments, name directories and the
/// arguments say run.mode=report; otherwise nothing. Throws Error when a word names no run, or an argument
/// belongs to another mode.
std::optional<ReportRequest> report_request(const std::vector<std::string>& files,
                                            const std::vector<std::string>& arguments);

/// Returns the data of the page. Throws Error (kUsage) when a directory holds no run.
nlohmann::ordered_json report_document(const std::vector<std::string>& runs, const ReportOptions& options);

/// Writes the page and prints its path.
void write_report(const std::vector<std::string>& runs, const ReportOptions& options);

}  // namespace mtf
