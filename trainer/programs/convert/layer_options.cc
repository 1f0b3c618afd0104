#include "trainer/programs/convert/layer_options.h"

#include <fmt/format.h>

namespace mtf {

std::string activation_text(const std::vector<Activation>& activation) {
  std::vector<std::string> words;
  for (const Activation function : activation) words.push_back(config::dump(function).text());
  return words.size() == 1 ? words[0] : fmt::format("[{}]", fmt::join(words, ", "));
}

}  // namespace mtf
