# cmake -D ROOT=.. -D FILES=a.h,b.h -D STANDARD=standard.h -D OUTPUT=sources.cc -P embed_sources.cmake
# Writes kernel_sources(): the text of FILES, and that of STANDARD under the name of each standard header they include.
string(REPLACE "," ";" files "${FILES}")
set(entries "")
set(standard_names "")
foreach(file ${files})
  file(READ ${ROOT}/${file} text)
  string(APPEND entries "    {\"${file}\", R\"MTF(${text})MTF\"},\n")
  string(REGEX MATCHALL "#include <[a-z_]+>" includes "${text}")
  list(APPEND standard_names ${includes})
endforeach()
list(REMOVE_DUPLICATES standard_names)
file(READ ${ROOT}/${STANDARD} standard)
foreach(include ${standard_names})
  string(REGEX REPLACE "#include <(.+)>" "\\1" name ${include})
  string(APPEND entries "    {\"${name}\", kStandard},\n")
endforeach()
file(WRITE ${OUTPUT} "// Made by ${CMAKE_CURRENT_LIST_FILE}.
#include \"engine/backend/cuda/fusion/fusion_source.h\"

namespace mtf::cuda {
namespace {

constexpr const char* kStandard = R\"MTF(${standard})MTF\";

constexpr SourceFile kSources[] = {
${entries}};

}  // namespace

std::span<const SourceFile> kernel_sources() { return kSources; }

}  // namespace mtf::cuda
")
