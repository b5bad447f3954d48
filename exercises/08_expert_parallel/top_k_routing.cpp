// Exercise 08.1: which experts each token uses, and how much of each.
//
// Goal:        choose for every token its best experts, and weigh their outputs.
// Length:      about 25 lines
// Difficulty:  easy
// Check:       ./workbook check 08.1
// Hints:       ./workbook hint 08.1
// Targets:     the best experts, best first, each once; equal scores in the order of their numbers;
//              biases that move the choice and no weight; weights that add up to one, but for one
//              choice
// You will need: dispatch_float(dtype, [&]<class T>() { ... }) (common/tensor/dtype.hpp), for f32 and f64
//              by one piece of code; HostView<T> (common/tensor/host_view.hpp), for the elements
//
// chapters/08_expert_parallel/top_k_routing.hpp declares the functions.
#include "chapters/08_expert_parallel/top_k_routing.hpp"

#include "common/base/errors.hpp"

namespace ultra::expert_parallel {

// TODO 1: for each token, the top_k experts by affinity and bias together.
// TODO 2: the weight of each of them, from the affinities alone.
Routing top_k_routing([[maybe_unused]] const Tensor& affinities,
                      [[maybe_unused]] const Tensor& biases, [[maybe_unused]] std::size_t top_k) {
  throw NotWritten("08.1 top_k_routing");
}

}  // namespace ultra::expert_parallel
