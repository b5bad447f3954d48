#include "chapters/04_zero/offload/offloaded_step.hpp"

#include <utility>

namespace ultra::zero {

// [region begin_block]
std::size_t OffloadedStep::begin_block(std::size_t block) {
  for (; asked_for_ < blocks_ && asked_for_ <= block + 1; ++asked_for_) {
    const std::size_t buffer = buffer_of(asked_for_);
    free_buffer(buffer);  // or the read would change what is still being written
    actions_.start_read(asked_for_, buffer);
  }
  actions_.finish_read(block);
  return buffer_of(block);
}
// [/region]

// [region end_block]
void OffloadedStep::end_block(std::size_t block) {
  const std::size_t buffer = buffer_of(block);
  actions_.start_write(block, buffer);
  writing_[buffer] = block;
}
// [/region]

// [region end_step]
void OffloadedStep::end_step() { asked_for_ = 0; }

void OffloadedStep::settle() {
  for (std::size_t buffer = 0; buffer < kWindowBuffers; ++buffer) free_buffer(buffer);
}
// [/region]

// [region free_buffer]
void OffloadedStep::free_buffer(std::size_t buffer) {
  const std::optional<std::size_t> block = std::exchange(writing_[buffer], std::nullopt);
  if (block) actions_.finish_write(*block);
}
// [/region]

}  // namespace ultra::zero
