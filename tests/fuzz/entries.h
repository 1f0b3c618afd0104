// The readers of external files, each as a function of the bytes of one input: for the fuzzers (fuzzer.cc)
// and for the test that feeds them the corpus (corpus_test.cc).
//
//   entry_called("safetensors").run(bytes);
#pragma once

#include <span>
#include <string_view>

namespace mtf::fuzz {

/// One reader. `run` returns when the input was accepted, or was refused by an Error that can be printed. A
/// broken promise (a dump that reads back differently, an Error without a message) fails an MTF_CHECK.
struct Entry {
  std::string_view name;  ///< also the name of its folder in corpus/
  void (*run)(std::string_view input);
};

std::span<const Entry> entries();
/// Returns the entry of this name, which must exist.
const Entry& entry_called(std::string_view name);

void run_yaml(std::string_view input);         ///< a YAML document
void run_config(std::string_view input);       ///< a configuration: files and arguments, see config_entry.cc
void run_safetensors(std::string_view input);  ///< a safetensors file
void run_manifest(std::string_view input);     ///< manifest.json of a checkpoint
void run_idx(std::string_view input);          ///< an IDX file of images or labels, plain or .gz
void run_png(std::string_view input);          ///< a PNG file
void run_jpeg(std::string_view input);         ///< a JPEG file
void run_npy(std::string_view input);          ///< an NPY or NPZ file
void run_cifar(std::string_view input);        ///< a binary file of CIFAR-10 or CIFAR-100
void run_table(std::string_view input);        ///< a CSV, TSV or JSON Lines file, see table_entry.cc

}  // namespace mtf::fuzz
