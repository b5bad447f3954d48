#pragma once
/// @file
/// Turns the arguments of a communicator's operations into checked calls.

#include <cstddef>
#include <span>

#include "common/comm/engine/operation.hpp"
#include "common/comm/transport.hpp"

/// @brief Checked arguments of collectives; each function throws ShapeError for what does not fit.
namespace ultra::comm::calls {

/// @brief Which member of how many asks.
struct Member {
  int rank;  ///< its position
  int size;  ///< of the group
};

/// @brief Arguments of Communicator::broadcast.
[[nodiscard]] CollectiveCall broadcast(const Tensor& data, int root, Member member);
/// @brief Arguments of Communicator::reduce.
[[nodiscard]] CollectiveCall reduce(const Tensor& data, int root, ReduceOp op, Member member);
/// @brief Arguments of Communicator::all_reduce.
[[nodiscard]] CollectiveCall all_reduce(const Tensor& data, ReduceOp op);
/// @brief Arguments of Communicator::gather.
[[nodiscard]] CollectiveCall gather(const Tensor& input, const Tensor& output, int root,
                                    Member member);
/// @brief Arguments of Communicator::scatter.
[[nodiscard]] CollectiveCall scatter(const Tensor& input, const Tensor& output, int root,
                                     Member member);
/// @brief Arguments of Communicator::all_gather.
[[nodiscard]] CollectiveCall all_gather(const Tensor& input, const Tensor& output, Member member);
/// @brief Arguments of Communicator::reduce_scatter.
[[nodiscard]] CollectiveCall reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op,
                                            Member member);
/// @brief Arguments of Communicator::all_to_all.
[[nodiscard]] CollectiveCall all_to_all(const Tensor& input, const Tensor& output, Member member);
/// @brief Arguments of Communicator::all_to_all_v.
[[nodiscard]] CollectiveCall all_to_all_v(const Tensor& input,
                                          std::span<const std::size_t> send_rows,
                                          const Tensor& output,
                                          std::span<const std::size_t> receive_rows, Member member);
/// @brief Arguments of Communicator::barrier.
/// @param element  [1] i32 that nobody reads: what a barrier's messages may carry.
[[nodiscard]] CollectiveCall barrier(const Tensor& element);
/// @brief What a message to or from `peer` is.
[[nodiscard]] OperationInfo message(OpKind kind, const Tensor& data, int peer, Member member);

/// The channel of ring shifts: the one after those that callers use.
inline constexpr int kShiftChannel = Tag::kLanes - 1;
/// @brief Throws ConfigError for a channel that callers may not use.
void expect_channel(OpKind kind, int channel);
/// @brief Throws ShapeError when what a shift sends and what it receives have memory in common.
void expect_shift(const Tensor& send, const Tensor& receive);

}  // namespace ultra::comm::calls
