#include "trainer/programs/convert/layer_types.h"

#include <fmt/format.h>

namespace mtf {

std::vector<bool> parse_layer_types(const HuggingFaceJson& json, int64_t layers) {
  const nlohmann::json& types = json.at("layer_types");
  if (!types.is_array() || std::ssize(types) != layers)
    json.fail(fmt::format("`layer_types` is no list of {} types", layers), "one for each layer");
  std::vector<bool> local;
  for (const nlohmann::json& type : types) {
    if (type != "full_attention" && type != "sliding_attention")
      json.fail(fmt::format("`layer_types` has {}, which cannot be converted", type.dump()),
                "full_attention, or sliding_attention");
    local.push_back(type == "sliding_attention");
  }
  return local;
}

}  // namespace mtf
