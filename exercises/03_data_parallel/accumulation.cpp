// Exercise 03.4: gradient accumulation on replicas.
//
// Goal:        let a share of any size pass in micro-batches, and communicate once.
// Length:      about 15 lines
// Difficulty:  easy
// Check:       ./workbook check 03.4
// Hints:       ./workbook hint 03.4
// Targets:     losses and gradients of one rank within 1e-10 in f64, for every micro-batch size;
//              bytes sent per step: those of one micro-batch, however many there are;
//              peak of the activations: that of one micro-batch
//
// chapters/03_data_parallel/accumulation.hpp declares the function, gradient_sync.hpp says when a
// GradientSync is called. Exercise 01.4 is the same loop on one device.
#include "chapters/03_data_parallel/accumulation.hpp"

#include "common/base/errors.hpp"

namespace ultra::data_parallel {

// TODO 1: throw ConfigError when micro_batch is 0.
// TODO 2: walk over the share, micro-batch by micro-batch, as in exercise 01.4; the last one may be
//         shorter. Each divides its loss by `normalizer`.
// TODO 3: tell `sync` before each micro-batch what kind it is. Which one makes the gradients final?
// TODO 4: wait for the averages, and return this replica's loss.
double accumulate_and_sync([[maybe_unused]] nn::Model& model,
                           [[maybe_unused]] const data::Sampler& share,
                           [[maybe_unused]] std::size_t step,
                           [[maybe_unused]] std::size_t micro_batch,
                           [[maybe_unused]] double normalizer,
                           [[maybe_unused]] GradientSync& sync) {
  throw NotWritten("03.4 accumulation");
}

}  // namespace ultra::data_parallel
