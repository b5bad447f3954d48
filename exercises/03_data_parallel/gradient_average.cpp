// Exercise 03.1: shares of the batch, averages of the gradients.
//
// Goal:        train one model on several replicas so that losses and gradients are those of one,
//              also where the shares of the batch differ in size.
// Length:      about 15 lines
// Difficulty:  easy
// Check:       ./workbook check 03.1
// Hints:       ./workbook hint 03.1
// Targets:     losses and gradients of one rank within 1e-10 in f64, for every batch and 1 to 5
//              replicas; one all-reduce per parameter
//
// chapters/03_data_parallel/gradient_average.hpp declares the functions; common/comm/communicator.hpp
// has rank(), size() and all_reduce().
#include "chapters/03_data_parallel/gradient_average.hpp"

#include "common/base/errors.hpp"

namespace ultra::data_parallel {

// TODO 1: which sequences of the global batch are this replica's? Every sequence belongs to one
// replica, in order; shares differ by at most one sequence, and the larger ones come first. Throw
// ConfigError, with both numbers, when there are fewer sequences than replicas.
Range share_of_batch([[maybe_unused]] std::size_t global_batch,
                     [[maybe_unused]] const Communicator& dp) {
  throw NotWritten("03.1 gradient_average: share_of_batch");
}

// TODO 2: by what must each replica divide the sum of its token losses, so that the average over the
// replicas is the mean over all tokens? The shares may differ in size.
double loss_normalizer([[maybe_unused]] const data::Sampler& global,
                       [[maybe_unused]] const Communicator& dp) {
  throw NotWritten("03.1 gradient_average: loss_normalizer");
}

// TODO 3: all-reduce the gradient of each of model.parameters(), in place.
void average_gradients([[maybe_unused]] const nn::Model& model,
                       [[maybe_unused]] const Communicator& dp) {
  throw NotWritten("03.1 gradient_average: average_gradients");
}

}  // namespace ultra::data_parallel
