#pragma once
/// @file
/// Communicator: the operations that a group of ranks carries out together.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/comm/collectives/collective_algorithms.hpp"
#include "common/comm/collectives/collective_call.hpp"
#include "common/comm/engine/operation.hpp"
#include "common/comm/engine/progress_engine.hpp"
#include "common/comm/traffic.hpp"
#include "common/comm/work.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra {

/// @brief What both ends of a message call it, where no order says which one it is.
///
/// Named messages and those that are matched by order never meet, on no channel.
struct MessageName {
  int channel = 0;           ///< keeps streams of messages apart; 0 to 30
  std::uint32_t number = 0;  ///< those of messages under way between two ranks on a channel are
                             ///< less than 2^kBits apart, and differ
  static constexpr unsigned kBits = 24;  ///< of a number that every backend keeps
  bool operator==(const MessageName&) const = default;
};

namespace comm {
struct Issuer;  // chapters/03_data_parallel/parameter_server/send_queue.cpp
}  // namespace comm

/// @brief A group of ranks; copies are handles on the same group.
///
/// **Collective:** every member calls the same operations in the same order. Each returns a PendingCall:
/// `comm.all_reduce(x).wait()` waits for it, `Work work = comm.all_reduce(x)` goes on while the rank
/// computes. Tensors must be contiguous. Operations work on elements, row-major, whatever
/// the shape; f32, f64 and i32 (but an average needs a float). Sizes may be 0, and where a tensor is
/// cut into one chunk per rank it need not divide: Chunks::even says who gets what. Input and
/// output share no memory, except where an operation says how it works in place.
/// **Errors:** ShapeError for tensors that do not fit, before any message; CommMismatch when members
/// call different operations (in checked mode: kind, count, dtype, reduction, root, label and order);
/// CommTimeout, RankFailed, Deadlock when members do not come. **Cost:** see each operation, for n
/// elements of the whole operation and P members; it is what CommStats counts, of the algorithms in
/// use or, for the platform's own collectives, of the bandwidth-optimal ones.
class Communicator {
 public:
  struct State;
  /// @brief Made by run_ranks and split.
  explicit Communicator(std::shared_ptr<State> state) : state_(std::move(state)) {}

  /// @brief This rank's position in the group.
  [[nodiscard]] int rank() const;
  /// @brief Number of members: the world size, in the group of all ranks.
  [[nodiscard]] int size() const;
  /// @brief The group's name: "world", or what split was told.
  [[nodiscard]] const std::string& name() const;
  /// @brief A member's rank in the world.
  [[nodiscard]] int world_rank(int member) const;
  /// @brief The member that a ring sends to: (rank + 1) mod size.
  [[nodiscard]] int next_rank() const { return (rank() + 1) % size(); }
  /// @brief The member that a ring receives from: (rank - 1) mod size.
  [[nodiscard]] int prev_rank() const { return (rank() + size() - 1) % size(); }

  /// @brief Groups the members by a number that each member can compute for all; inside a group they
  /// stand in the order of their ranks. Collective, though no message travels: every member passes
  /// the same numbers. @param name  of the new group, for messages and timelines.
  [[nodiscard]] Communicator split(const std::function<int(int member)>& color,
                                   const std::string& name = "split") const;

  /// @brief The same group with these algorithms from now on; nullptr for the platform's own
  /// collectives. Every member must choose the same. Groups split off before keep theirs. @throws
  /// ConfigError for nullptr on a slowed link.
  [[nodiscard]] Communicator with_algorithms(
      std::shared_ptr<const comm::CollectiveAlgorithms> algorithms) const;

  /// @brief The same members; operations issued through this handle carry `label` in messages and
  /// timelines. In checked mode, members must give a collective the same label: so buckets of one
  /// size that are flushed in different orders are told apart. Groups split off have none.
  [[nodiscard]] Communicator labeled(std::string label) const;

  /// @brief Copies `data` of member `root` to all. Cost: n elements reach each other member.
  PendingCall broadcast(const Tensor& data, int root) const;
  /// @brief Member `root` gets the reduction of all `data`; the others' data stays as it was.
  PendingCall reduce(const Tensor& data, int root, ReduceOp op = ReduceOp::kSum) const;
  /// @brief All get the reduction of all `data`, in place, bitwise the same everywhere.
  /// Cost: 2 n (P-1)/P elements sent per rank for large n (Patarasuk & Yuan 2009).
  PendingCall all_reduce(const Tensor& data, ReduceOp op = ReduceOp::kSum) const;
  /// @brief Member `root` gets all inputs, of the same size, one after the other. In place: the
  /// root's input may be its chunk of its output.
  /// @param output  [P * input.numel()] at the root; ignored elsewhere.
  PendingCall gather(const Tensor& input, const Tensor& output, int root) const;
  /// @brief Member i gets part i of P equal parts of member `root`'s input. In place: the root's
  /// output may be its chunk of its input.
  /// @param input  [P * output.numel()] at the root; ignored elsewhere.
  PendingCall scatter(const Tensor& input, const Tensor& output, int root) const;
  /// @brief All get all inputs, one after the other. In place: `input` may be its chunk of `output`.
  /// @param input   chunk number rank() of Chunks::even(output, P).
  /// Cost: n (P-1)/P elements sent per rank.
  PendingCall all_gather(const Tensor& input, const Tensor& output) const;
  /// @brief Each member gets its chunk of the reduction of all inputs. In place: `output` may be its
  /// chunk of `input`, whose other chunks then hold anything; else the input stays as it was.
  /// @param output  chunk number rank() of Chunks::even(input, P).
  /// Cost: n (P-1)/P elements sent per rank.
  PendingCall reduce_scatter(const Tensor& input, const Tensor& output,
                             ReduceOp op = ReduceOp::kSum) const;
  /// @brief Part j of the input becomes part rank() of member j's output; all parts are equal. Not
  /// in place.
  /// Cost: n (P-1)/P elements sent per rank, n = input.numel().
  PendingCall all_to_all(const Tensor& input, const Tensor& output) const;
  /// @brief Like all_to_all, with rows (indices of dimension 0) per member.
  /// @param send_rows     [P] rows for each member; add up to the input's.
  /// @param receive_rows  [P] rows from each member; add up to the output's.
  PendingCall all_to_all_v(const Tensor& input, std::span<const std::size_t> send_rows,
                           const Tensor& output, std::span<const std::size_t> receive_rows) const;
  /// @brief Sends to a member. The k-th send to it on a channel meets its k-th recv from here.
  /// @param channel  keeps streams of messages apart; 0 to 30.
  PendingCall send(const Tensor& data, int peer, int channel = 0) const;
  /// @brief Receives from a member; shape and dtype must be the sender's.
  PendingCall recv(const Tensor& data, int peer, int channel = 0) const;
  /// @brief Sends to a member, to the recv of the same name there, whatever else was issued before.
  PendingCall send(const Tensor& data, int peer, const MessageName& name) const;
  /// @brief Receives what a member sends under the same name; shape and dtype must be the sender's.
  PendingCall recv(const Tensor& data, int peer, const MessageName& name) const;
  /// @brief Sends to member rank + distance and receives from rank - distance, on the ring. Not in
  /// place.
  PendingCall ring_shift(const Tensor& send, const Tensor& receive, int distance = 1) const;

  /// @brief Ends when all members have called it.
  PendingCall barrier() const;

  /// @brief Moves this rank's operations along once: only Progress::kOnCall needs it, between
  /// pieces of computation.
  void progress() const;
  /// @brief What this rank has sent in all groups, and how long it waited.
  [[nodiscard]] CommStats stats() const;
  /// @brief Tells `observer` of this rank's operations in all groups from now on; it must live until
  /// it is replaced. nullptr stops that.
  void set_observer(CommObserver* observer) const;

 private:
  friend struct comm::Issuer;

  [[nodiscard]] comm::calls::Member member() const;
  PendingCall collective(comm::CollectiveCall call) const;
  PendingCall pending(std::shared_ptr<comm::Operation> operation) const;
  [[nodiscard]] std::shared_ptr<comm::Operation> message(OpKind kind, const Tensor& data, int peer,
                                                         int channel) const;
  [[nodiscard]] std::shared_ptr<comm::Operation> named(OpKind kind, const Tensor& data, int peer,
                                                       const MessageName& name) const;
  [[nodiscard]] std::shared_ptr<comm::Operation> tagged(OpKind kind, const Tensor& data, int peer,
                                                        const comm::Tag& tag) const;
  [[nodiscard]] std::shared_ptr<comm::Operation> shift(const Tensor& send, const Tensor& receive,
                                                       int distance) const;

  std::shared_ptr<State> state_;
};

}  // namespace ultra
