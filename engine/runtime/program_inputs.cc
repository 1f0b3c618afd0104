#include "engine/runtime/program_inputs.h"

#include <cstring>
#include <utility>

#include "engine/spmd/lifetimes.h"

namespace mtf {
namespace {

constexpr int64_t kStepBytes = aligned(sizeof(uint64_t));

std::vector<int64_t> offsets_of(const std::vector<int64_t>& bytes) {
  std::vector<int64_t> offsets{0, kStepBytes};
  for (const int64_t of_input : bytes) offsets.push_back(offsets.back() + of_input);
  return offsets;
}

}  // namespace

int64_t input_block_bytes(int64_t bytes_of_inputs) { return kStepBytes + bytes_of_inputs; }

ProgramInputs::ProgramInputs(Backend& backend, const std::vector<int64_t>& bytes)
    : offsets_(offsets_of(bytes)),
      memory_(backend.allocate(offsets_.back())),
      transfer_(backend.make_block_transfer(memory_->data(), offsets_.back())),
      filled_(offsets_.size() - 1, false) {
  parts_.reserve(filled_.size());
}

std::byte* ProgramInputs::fill_part(size_t part) {
  if (!transfer_) block_ = memory_->data();
  if (block_ == nullptr) block_ = transfer_->block();
  filled_[part] = true;
  return block_ + offsets_[part];
}

void ProgramInputs::set_step(uint64_t step) { std::memcpy(fill_part(0), &step, sizeof(step)); }

void ProgramInputs::send() {
  if (!transfer_ || std::exchange(block_, nullptr) == nullptr) return;
  parts_.clear();
  for (size_t part = 0; part < filled_.size(); ++part) {
    if (!filled_[part]) continue;
    filled_[part] = false;
    const int64_t begin = offsets_[part], end = offsets_[part + 1];
    if (!parts_.empty() && parts_.back().begin + parts_.back().bytes == begin) {
      parts_.back().bytes += end - begin;
    } else {
      parts_.push_back({begin, end - begin});
    }
  }
  transfer_->send(parts_);
}

}  // namespace mtf
