// Exercise 01.4: gradient accumulation.
//
// Goal:        train with a global batch of any size in the activation memory of one micro-batch.
// Length:      about 15 lines
// Difficulty:  easy
// Check:       ./workbook check 01.4
// Hints:       ./workbook hint 01.4
// Targets:     loss and gradients of the whole batch within 1e-12 in f64, for every micro-batch size;
//              peak of the activations: that of one micro-batch, whatever the global batch
//
// chapters/01_memory/gradient_accumulation.hpp declares the function; common/nn/model.hpp says how
// one micro-batch passes through the model; common/data/dataset.hpp has the sampler.
#include "chapters/01_memory/gradient_accumulation.hpp"

#include "common/base/errors.hpp"

namespace ultra::memory {

// TODO 1: throw ConfigError when micro_batch_size is 0 or does not divide the global batch.
// TODO 2: walk over the global batch, micro-batch by micro-batch: draw it (sampler.batch), run
//         forward, loss and backward with a Saved of its own, and let that Saved go before the next.
// TODO 3: return the mean loss. By what must each micro-batch's loss be divided, so that the sum of
//         the gradients is the gradient of the mean over all tokens?
double accumulate_gradients([[maybe_unused]] nn::Model& model,
                            [[maybe_unused]] const data::Sampler& sampler,
                            [[maybe_unused]] std::size_t step,
                            [[maybe_unused]] std::size_t micro_batch_size) {
  throw NotWritten("01.4 accumulate_gradients");
}

}  // namespace ultra::memory
