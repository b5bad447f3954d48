// Exercise 01.4: gradient accumulation.
//
// Goal:        train with a global batch of any size in the activation memory of one micro-batch.
// Length:      about 15 lines
// Difficulty:  easy
// Check:       ./workbook check 01.4
// Hints:       ./workbook hint 01.4
// Targets:     loss and gradients of the whole batch within 1e-12 in f64, for every micro-batch
//              size; peak of the activations: that of one micro-batch, whatever the global batch
//
// chapters/01_memory/gradient_accumulation.hpp declares the functions; common/train/micro_batch.hpp
// says what a share and a micro-batch are, common/train/step_schedule.hpp what a pass is. The loop
// that runs the passes is in common/train/step.cpp.
#include "chapters/01_memory/gradient_accumulation.hpp"

#include "common/base/errors.hpp"

namespace ultra::memory {

// TODO 1: throw ConfigError when micro_batch_size is 0 or does not divide the share.
// TODO 2: cut the share's sequences, counted from 0, into micro-batches. By what must each one
//         divide the sum of its token losses, so that the sum of the gradients is the gradient of
//         the mean over all tokens?
std::vector<train::MicroBatch> cut_share([[maybe_unused]] const train::LocalBatch& share,
                                         [[maybe_unused]] std::size_t micro_batch_size) {
  throw NotWritten("01.4 gradient_accumulation: cut_share");
}

// TODO 3: list the forward and the backward pass of each micro-batch. A forward pass leaves
//         activations behind, its backward pass frees them: in which order is least in memory?
train::StepSchedule accumulation_schedule([[maybe_unused]] std::size_t micro_batches) {
  throw NotWritten("01.4 gradient_accumulation: accumulation_schedule");
}

}  // namespace ultra::memory
