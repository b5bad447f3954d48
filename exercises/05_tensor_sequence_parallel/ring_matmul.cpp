// Exercise 05.6: rings around matrix products.
//
// Goal:        compute with the chunk that is here while the next one travels.
// Length:      about 30 lines
// Difficulty:  hard
// Check:       ./workbook check 05.6
// Hints:       ./workbook hint 05.6
// Targets:     every chunk is used once, under its number, the rank's own first;
//              the sum of all ranks' parts for the rank's own chunk; each part made once, that for
//              its own chunk last;
//              N - 1 chunks sent per rank, to the next one, and never more than two (three) in memory;
//              while a chunk is used, or made, another travels
// You will need: Communicator::ring_shift() (common/comm/communicator.hpp), which sends to the next
//              rank and receives from the one before; wait() of the Work that it returns;
//              ops::add_into() (common/ops/elementwise.hpp)
//
// chapters/05_tensor_sequence_parallel/ring_matmul.hpp declares the functions; ring_layers.cpp builds
// layers from them.
#include "chapters/05_tensor_sequence_parallel/ring_matmul.hpp"

#include "common/base/errors.hpp"

namespace ultra::tensor_parallel {

// TODO 1: in each step begin to pass on the chunk that is here, and to receive the next one; use the
// chunk meanwhile. In the last step nobody needs another one.
void gather_in_ring([[maybe_unused]] const Tensor& own, [[maybe_unused]] const Communicator& tp,
                    [[maybe_unused]] const UseChunk& use) {
  throw NotWritten("05.6 ring_matmul: gather_in_ring");
}

// TODO 2: find the chunk with which a rank has to begin, so that the ring ends with its own. In each
// step begin to pass on the sum so far, and to receive the one before; make this rank's part meanwhile.
Tensor reduce_scatter_in_ring([[maybe_unused]] const Communicator& tp,
                              [[maybe_unused]] const MakeChunk& make) {
  throw NotWritten("05.6 ring_matmul: reduce_scatter_in_ring");
}

}  // namespace ultra::tensor_parallel
