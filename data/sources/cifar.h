// Binary files of CIFAR-10 and CIFAR-100.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/sources/array_source.h"
#include "engine/config/types.h"

namespace mtf {

/// Which of the two labels of CIFAR-100. CIFAR-10 has one, which is called fine.
enum class CifarLabels { kFine, kCoarse };
config::EnumNames enum_names(CifarLabels);

/// Features `image` float32 [rows=32, cols=32, channels=3] from 0 to 1 and `labels` int32 [].
std::vector<Feature> cifar_features();

/// Opens files, plain or .gz, at least one; all are of the same kind, which the size of their records tells. The names
/// of the classes are those of the text file that comes with them, where it lies beside the first one. Throws Error
/// (kData), which names the file, for another size, labels that there are not, or files of both kinds.
std::unique_ptr<ArraySource> open_cifar(const std::vector<std::string>& paths, CifarLabels labels);

}  // namespace mtf
