// Builds HTML pages that stand alone: style, scripts and data are part of the file, and nothing is loaded from
// elsewhere. The files beside this one are the sources of the pages; the build embeds them into the program.
//
//   const std::string page = html_page("mnist", {"charts.js", "report.js"}, data);
//
// A page is page.html with theme.css, dom.js, the named scripts, and the data, which scripts read as `pageData`.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

namespace mtf {

/// A file of this folder.
struct HtmlSource {
  std::string_view name;  ///< "theme.css"
  std::string_view text;
};

/// Returns all .html, .css and .js files of this folder.
std::span<const HtmlSource> html_sources();

/// Returns `text` with the characters that mean something in HTML replaced, for text and attributes.
std::string escaped_html(std::string_view text);
/// Returns the data as JSON that may stand in a <script> element: whatever the texts contain, none of them ends
/// it. Bytes that are not UTF-8 are replaced.
std::string script_json(const nlohmann::ordered_json& data);

/// Returns a page. Texts in `title` and `data` may contain anything; `scripts` run in this order.
std::string html_page(std::string_view title, std::initializer_list<std::string_view> scripts,
                      const nlohmann::ordered_json& data);

}  // namespace mtf
