// Exercise 03.1: shares of the batch.
//
// Goal:        train one model on several replicas so that losses and gradients are those of one,
//              also where the shares of the batch differ in size.
// Length:      about 20 lines
// Difficulty:  easy
// Check:       ./workbook check 03.1
// Hints:       ./workbook hint 03.1
// Targets:     losses and gradients of one rank within 1e-10 in f64, for every batch and 1 to 5
//              replicas; shares that cover the batch and differ by at most one sequence;
//              equally many passes on every replica
//
// chapters/03_data_parallel/batch_shares.hpp declares the functions; common/comm/communicator.hpp
// has rank() and size(), common/train/micro_batch.hpp says what a share and a micro-batch are.
#include "chapters/03_data_parallel/batch_shares.hpp"

#include "common/base/errors.hpp"

namespace ultra::data_parallel {

// TODO 1: which sequences of the global batch are this replica's? Every sequence belongs to one
// replica, in order; shares differ by at most one sequence, and the larger ones come first. Throw
// ConfigError, with both numbers, when there are fewer sequences than replicas.
Range share_of_batch([[maybe_unused]] std::size_t global_batch,
                     [[maybe_unused]] const Communicator& dp) {
  throw NotWritten("03.1 batch_shares: share_of_batch");
}

// TODO 2: cut this replica's share into micro-batches, counted from its first sequence; the last
// one may be shorter. How many passes does the largest share need? Every replica makes that many:
// what can one do that has no sequences left? By what is the sum of token losses divided, so that
// the gradients of all replicas add up to the gradient of the mean over all tokens?
std::vector<train::MicroBatch> cut_share([[maybe_unused]] const train::LocalBatch& share,
                                         [[maybe_unused]] std::size_t micro_batch) {
  throw NotWritten("03.1 batch_shares: cut_share");
}

}  // namespace ultra::data_parallel
