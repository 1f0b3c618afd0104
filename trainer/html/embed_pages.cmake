# cmake -D FOLDER=.. -D FILES=a.html,b.js -D OUTPUT=sources.cc -P embed_pages.cmake
# Writes html_sources(): the text of each of FILES, which lie in FOLDER.
string(REPLACE "," ";" files "${FILES}")
set(entries "")
foreach(file ${files})
  file(READ ${FOLDER}/${file} text)
  string(APPEND entries "    {\"${file}\", R\"MTF(${text})MTF\"},\n")
endforeach()
file(WRITE ${OUTPUT} "// Made by ${CMAKE_CURRENT_LIST_FILE}.
#include \"trainer/html/page.h\"

namespace mtf {
namespace {

constexpr HtmlSource kSources[] = {
${entries}};

}  // namespace

std::span<const HtmlSource> html_sources() { return kSources; }

}  // namespace mtf
")
