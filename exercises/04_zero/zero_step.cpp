// Exercise 04.2: the step of ZeRO-1.
//
// Goal:        let each rank update its shard only, and all ranks have all weights afterwards.
// Length:      about 15 lines
// Difficulty:  medium
// Check:       ./workbook check 04.2
// Hints:       ./workbook hint 04.2
// Targets:     weights of plain data parallelism, bit for bit in f32;
//              2 (N-1)/N bytes of the gradients sent per rank and step, as an all-reduce would;
//              two moments for the elements of the rank's own shard, and for no others
// You will need: own_shard() (chapters/04_zero/shards/shard_groups.hpp), optim::clip_coefficient()
//              (common/optim/clip.hpp); a reduce-scatter and an all-gather work in place when a
//              rank's chunk is a slice of the whole array (common/comm/communicator.hpp)
//
// chapters/04_zero/zero_step.hpp declares the class and the functions.
#include "chapters/04_zero/zero_step.hpp"

#include "common/base/errors.hpp"

namespace ultra::zero {

// TODO 1: remember the part of the bucket that belongs to this rank of groups_.shards, and begin to
// reduce-scatter the bucket into it.
void ReduceScatterExchange::start([[maybe_unused]] const Tensor& bucket) {
  throw NotWritten("04.2 zero_step: start");
}

// TODO 2: wait. If other ranks hold the same shard (groups_.replicas), add it to theirs. Let go
// of the bucket's memory.
void ReduceScatterExchange::finish() { throw NotWritten("04.2 zero_step: finish"); }

// TODO 3: the optimizer's step on this rank's shard, clipped by the norm; then all-gather each array in
// place.
void step_own_shard([[maybe_unused]] std::span<const optim::TensorUpdate> own,
                    [[maybe_unused]] std::span<const Tensor> whole,
                    [[maybe_unused]] const train::StepRule& rule,
                    [[maybe_unused]] optim::Optimizer& optimizer,
                    [[maybe_unused]] const Communicator& shards) {
  throw NotWritten("04.2 zero_step: step_own_shard");
}

}  // namespace ultra::zero
