// Exercise 03.6: the overlap condition.
//
// Goal:        predict how much of the communication the backward pass hides, before anything runs.
// Length:      about 15 lines
// Difficulty:  medium
// Check:       ./workbook check 03.6
// Hints:       ./workbook hint 03.6
// Targets:     8 H100s at 989 TFLOP/s, 450 GB/s, bf16   hidden from 1923 tokens per replica on
//              many replicas                            from 2198 tokens on, and never more
//              buckets                                  the time that a queue of them takes, one by
//                                                       one
//
// chapters/03_data_parallel/overlap_condition.hpp declares the functions. Derive their formulas:
// how long does one parameter keep the processor, how long the link?
// When may a bucket leave, and when is the link free for it? The price of a ring all-reduce is in
// chapters/02_collectives/simulator/cost_model.hpp.
#include "chapters/03_data_parallel/overlap_condition.hpp"

#include "common/base/errors.hpp"

namespace ultra::data_parallel {

// TODO 1: the time that a parameter's gradient takes on the link, over the time of its backward
// pass.
double overlap_ratio([[maybe_unused]] int replicas, [[maybe_unused]] double tokens,
                     [[maybe_unused]] double element_bytes, [[maybe_unused]] double flops,
                     [[maybe_unused]] double bytes_per_second) {
  throw NotWritten("03.6 overlap_condition: overlap_ratio");
}

// TODO 2: what is exposed when the gradients travel in buckets.
OverlapPrediction predict_overlap([[maybe_unused]] const OverlapCase& overlap) {
  throw NotWritten("03.6 overlap_condition: predict_overlap");
}

}  // namespace ultra::data_parallel
