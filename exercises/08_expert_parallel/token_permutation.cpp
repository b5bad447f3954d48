// Exercise 08.2: tokens in the order of their experts, and back.
//
// Goal:        make rows of tokens that an expert can take as one matrix, and sums of rows again.
// Length:      about 45 lines
// Difficulty:  medium
// Check:       ./workbook check 08.2
// Hints:       ./workbook hint 08.2
// Targets:     the rows of each expert together, in the order of the tokens; no row for kDropped;
//              weighted rows, and weighted sums of them; zeros for a token without a row
// You will need: dispatch_float() (common/tensor/dtype.hpp) and HostView<T> (common/tensor/host_view.hpp),
//              as in 08.1
//
// chapters/08_expert_parallel/token_permutation.hpp declares the functions.
#include "chapters/08_expert_parallel/token_permutation.hpp"

#include "common/base/errors.hpp"

namespace ultra::expert_parallel {

// TODO 1: count the rows of each expert.
// TODO 2: from the counts, where the rows of each expert begin; then give every choice its place.
ExpertOrder expert_order([[maybe_unused]] const Tensor& destinations,
                         [[maybe_unused]] std::size_t num_experts) {
  throw NotWritten("08.2 token_permutation");
}

// TODO 3: each row is its token, times its weight if there are weights.
Tensor to_expert_order([[maybe_unused]] const Tensor& x, [[maybe_unused]] const Tensor& weights,
                       [[maybe_unused]] const ExpertOrder& order) {
  throw NotWritten("08.2 token_permutation");
}

// TODO 4: each token is the sum of its rows, each times its weight if there are weights.
Tensor from_expert_order([[maybe_unused]] const Tensor& rows,
                         [[maybe_unused]] const Tensor& weights,
                         [[maybe_unused]] const ExpertOrder& order) {
  throw NotWritten("08.2 token_permutation");
}

}  // namespace ultra::expert_parallel
