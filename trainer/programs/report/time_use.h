// Where the time of profiled steps went, from a profile of a run (trainer/report/chrome_trace.h).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace mtf {

/// Returns {seconds, steps, categories: {NAME: seconds}, longest: [{name, category, count, seconds}]} of the main
/// thread: each moment counts for the innermost span around it. Null if the file does not exist or is no
/// profile. The file is read line by line.
nlohmann::ordered_json time_use_of(const std::string& path);

}  // namespace mtf
