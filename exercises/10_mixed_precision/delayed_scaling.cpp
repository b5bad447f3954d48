// Exercise 10.7: delayed scaling.
//
// Goal:        give every step scales before its tensors are known, the same ones on every rank.
// Length:      about 20 lines
// Difficulty:  medium
// Check:       ./workbook check 10.7
// Hints:       ./workbook hint 10.7
// Targets:     the largest of the last steps; a scale that stays within a step; the oldest step
//              forgotten, the latest kept; the margin; one exchange for all histories; an
//              overflow that the steps to come do not see
//
// chapters/10_mixed_precision/delayed_scaling.hpp declares the functions. Tensor::from<float>(host, {n},
// values) makes a tensor of a vector, and HostView<const float> reads one.
#include "chapters/10_mixed_precision/delayed_scaling.hpp"

#include "common/base/errors.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::mixed_precision {

// TODO 1: several tensors of a step share place 0.
void note_amax([[maybe_unused]] std::span<float> history, [[maybe_unused]] float amax) {
  throw NotWritten("10.7 delayed_scaling");
}

// TODO 2: which places may the scale of this step depend on?
float delayed_scale([[maybe_unused]] std::span<const float> history, [[maybe_unused]] Fp8 format,
                    [[maybe_unused]] int margin) {
  throw NotWritten("10.7 delayed_scaling");
}

// TODO 3: a step later.
void end_amax_step([[maybe_unused]] std::span<float> history) {
  throw NotWritten("10.7 delayed_scaling");
}

// TODO 4: each rank has noted the maxima of its own tokens and its own parts of tensors. What must travel,
// and how often?
void end_amax_steps([[maybe_unused]] const std::vector<std::span<float>>& histories,
                    [[maybe_unused]] const Communicator& ranks,
                    [[maybe_unused]] const Device& host) {
  throw NotWritten("10.7 delayed_scaling");
}

}  // namespace ultra::mixed_precision
