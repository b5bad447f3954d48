// Exercise 06.1: two partial attentions, merged.
//
// Goal:        turn attention over some keys, and over others, into attention over all.
// Length:      about 25 lines
// Difficulty:  easy
// Check:       ./workbook check 06.1
// Hints:       ./workbook hint 06.1
// Targets:     softmax over all keys at once, for any two parts, in any order;
//              a query that has seen no key on one side, or on both; logits of any size, without overflow
// You will need: dispatch_float(dtype, [&]<class T>() { ... }) (common/tensor/dtype.hpp), for f32 and f64
//              by one piece of code; HostView<T> (common/tensor/host_view.hpp), for the elements
//
// chapters/06_context_parallel/merge_attention.hpp declares the functions.
#include "chapters/06_context_parallel/merge_attention.hpp"

#include "common/base/errors.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::context_parallel {

// TODO 1: for each query of each head: the log of the sum of both sums of exponentials, without
// computing an exponential that can overflow.
// TODO 2: weigh each output by its sum's share of that sum.
void merge_attention([[maybe_unused]] const ops::AttentionResult& into,
                     [[maybe_unused]] const ops::AttentionResult& part) {
  throw NotWritten("06.1 merge_attention");
}

}  // namespace ultra::context_parallel
