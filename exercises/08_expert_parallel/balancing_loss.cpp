// Exercise 08.4: the balancing loss.
//
// Goal:        a term of the loss that keeps all experts busy, and its gradient.
// Length:      about 35 lines
// Difficulty:  medium
// Check:       ./workbook check 08.4
// Hints:       ./workbook hint 08.4
// Targets:     the coefficient for an even router, experts / top_k times that for a collapsed one;
//              the mean over the sequences of the global batch; shares that add up over ranks;
//              the gradient of the probabilities
//
// chapters/08_expert_parallel/balancing_loss.hpp declares the functions.
#include "chapters/08_expert_parallel/balancing_loss.hpp"

#include "common/base/errors.hpp"

namespace ultra::expert_parallel {

// TODO 1: what this rank's tokens add to the term.
double balancing_loss([[maybe_unused]] const Tensor& probabilities,
                      [[maybe_unused]] const Tensor& choices,
                      [[maybe_unused]] const BalancingTerm& term) {
  throw NotWritten("08.4 balancing_loss");
}

// TODO 2: what one probability is multiplied by in it.
Tensor balancing_loss_backward([[maybe_unused]] const Tensor& choices,
                               [[maybe_unused]] std::size_t tokens,
                               [[maybe_unused]] const BalancingTerm& term) {
  throw NotWritten("08.4 balancing_loss");
}

}  // namespace ultra::expert_parallel
