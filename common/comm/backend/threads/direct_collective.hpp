#pragma once
/// @file
/// Collectives of ranks that see each other's memory: no message, one pass over the data.

#include <cstdint>
#include <memory>

#include "common/comm/backend/threads/direct_board.hpp"
#include "common/comm/engine/operation.hpp"

namespace ultra::comm::threads {

/// @brief A collective in which every rank reads its part from, and writes its results to, the
/// other ranks' own tensors.
///
/// In an all_reduce of n elements over P ranks, rank r combines chunk r of all P tensors, in the
/// order of the ranks, and stores the result in all of them: each element is read once and written
/// once per rank, which is the least that memory allows. Every reduced element is
/// ((x_0 + x_1) + x_2) + ..., wherever it is: bitwise the same on all ranks, and the same whether an
/// array is reduced whole, in pieces, or by reduce_scatter with any counts.
/// Cost: counted as sent is what others read from a rank's tensors and what it writes into theirs:
/// 2 n (P-1)/P elements for all_reduce, n (P-1)/P for reduce_scatter, all_gather and all_to_all.
/// @param number  how many of these the group has begun before.
[[nodiscard]] std::shared_ptr<Operation> make_direct(const CollectiveCall& call,
                                                     std::shared_ptr<DirectBoard> board, int rank,
                                                     std::uint64_t number);

}  // namespace ultra::comm::threads
