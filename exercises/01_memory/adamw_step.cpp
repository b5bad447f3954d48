// Exercise 01.3: the AdamW update.
//
// Goal:        write the step that makes the optimizer states, the largest part of a model's memory.
// Length:      about 15 lines
// Difficulty:  easy
// Check:       ./workbook check 01.3
// Hints:       ./workbook hint 01.3
// Targets:     PyTorch's update within rounding over ten steps, in f32 and f64;
//              two numbers of state per weight: 8 bytes per fp32 parameter
//
// chapters/01_memory/adamw_step.hpp declares the function; the moments and the direction are those of
// algorithm 2 of the paper that it names. The weight moves as in PyTorch: the learning rate multiplies
// the decay, too,
//     value = value - learning_rate (direction + weight_decay value).
#include "chapters/01_memory/adamw_step.hpp"

#include "common/base/errors.hpp"

namespace ultra::memory {

// TODO 1: scale the gradient by constants.gradient_scale (the clipping coefficient).
// TODO 2: update both moments in place.
// TODO 3: correct both for having started at zero; constants.step is 1 in the first step.
// TODO 4: move the weight. Epsilon stands outside of the root. The weight decay is decoupled: it never
//         passes through the moments. But it does take the learning rate, see above.
template <FloatingScalar T>
void adamw_step([[maybe_unused]] std::span<T> value, [[maybe_unused]] std::span<const T> grad,
                [[maybe_unused]] std::span<T> first_moment,
                [[maybe_unused]] std::span<T> second_moment,
                [[maybe_unused]] const ops::AdamWStep& constants) {
  throw NotWritten("01.3 adamw_step");
}

template void adamw_step<float>(std::span<float>, std::span<const float>, std::span<float>,
                                std::span<float>, const ops::AdamWStep&);
template void adamw_step<double>(std::span<double>, std::span<const double>, std::span<double>,
                                 std::span<double>, const ops::AdamWStep&);

}  // namespace ultra::memory
