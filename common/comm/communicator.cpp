#include "common/comm/communicator.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>
#include <vector>

#include "common/comm/collectives/collective_call.hpp"
#include "common/comm/collectives/schedule_runner.hpp"
#include "common/comm/engine/group_state.hpp"
#include "common/comm/links/point_to_point.hpp"
#include "common/comm/links/slow_link.hpp"

namespace ultra {

int Communicator::rank() const { return state_->group->transport->rank(); }
int Communicator::size() const { return state_->group->transport->size(); }
const std::string& Communicator::name() const { return state_->group->name; }
int Communicator::world_rank(int member) const {
  return state_->group->transport->world_rank(member);
}

comm::calls::Member Communicator::member() const { return {.rank = rank(), .size = size()}; }

PendingCall Communicator::collective(comm::CollectiveCall call) const {
  comm::GroupState& group = *state_->group;
  group.number(call.info);
  call.info.label = state_->label;
  return pending(state_->algorithms
                     ? comm::run_schedule(std::move(call), *state_->algorithms, group.transport,
                                          group.control, group.own->checking)
                     : group.transport->native(call, group.own->checking));
}

PendingCall Communicator::pending(std::shared_ptr<comm::Operation> operation) const {
  return {state_->group, std::move(operation)};
}

Communicator Communicator::split(const std::function<int(int member)>& color,
                                 const std::string& name) const {
  comm::GroupState& group = *state_->group;
  std::vector<int> colors;
  for (int member = 0; member < size(); ++member) colors.push_back(color(member));
  std::vector<int> members;
  for (int member = 0; member < size(); ++member) {
    if (colors[static_cast<std::size_t>(member)] == colors[static_cast<std::size_t>(rank())]) {
      members.push_back(member);
    }
  }
  comm::CollectiveCall meeting = comm::calls::barrier(group.barrier_element);
  // It has a number, by which the next operation finds a member that has not split the group.
  group.number(meeting.info);
  if (group.control->subgroup_blocks()) {
    meeting.info.label = fmt::format("split {}", fmt::join(colors, " "));
    pending(group.control->native(meeting, group.own->checking)).wait();
  }
  auto joined =
      comm::GroupState::join(group.own, group.control->subgroup(members, group.splits++), name);
  return Communicator(std::make_shared<State>(State{std::move(joined), state_->algorithms, {}}));
}

Communicator Communicator::with_algorithms(
    std::shared_ptr<const comm::CollectiveAlgorithms> algorithms) const {
  if (!algorithms && state_->group->own->link) throw comm::native_on_slowed_link();
  return Communicator(
      std::make_shared<State>(State{state_->group, std::move(algorithms), state_->label}));
}

Communicator Communicator::labeled(std::string label) const {
  return Communicator(
      std::make_shared<State>(State{state_->group, state_->algorithms, std::move(label)}));
}

PendingCall Communicator::broadcast(const Tensor& data, int root) const {
  return collective(comm::calls::broadcast(data, root, member()));
}

PendingCall Communicator::reduce(const Tensor& data, int root, ReduceOp op) const {
  return collective(comm::calls::reduce(data, root, op, member()));
}

PendingCall Communicator::all_reduce(const Tensor& data, ReduceOp op) const {
  return collective(comm::calls::all_reduce(data, op));
}

PendingCall Communicator::gather(const Tensor& input, const Tensor& output, int root) const {
  return collective(comm::calls::gather(input, output, root, member()));
}

PendingCall Communicator::scatter(const Tensor& input, const Tensor& output, int root) const {
  return collective(comm::calls::scatter(input, output, root, member()));
}

PendingCall Communicator::all_gather(const Tensor& input, const Tensor& output) const {
  return collective(comm::calls::all_gather(input, output, member()));
}

PendingCall Communicator::reduce_scatter(const Tensor& input, const Tensor& output,
                                         ReduceOp op) const {
  return collective(comm::calls::reduce_scatter(input, output, op, member()));
}

PendingCall Communicator::all_to_all(const Tensor& input, const Tensor& output) const {
  return collective(comm::calls::all_to_all(input, output, member()));
}

PendingCall Communicator::all_to_all_v(const Tensor& input, std::span<const std::size_t> send_rows,
                                       const Tensor& output,
                                       std::span<const std::size_t> receive_rows) const {
  return collective(comm::calls::all_to_all_v(input, send_rows, output, receive_rows, member()));
}

PendingCall Communicator::barrier() const {
  return collective(comm::calls::barrier(state_->group->barrier_element));
}

std::shared_ptr<comm::Operation> Communicator::tagged(OpKind kind, const Tensor& data, int peer,
                                                      const comm::Tag& tag) const {
  const comm::GroupState& group = *state_->group;
  group.expect_all_issued();
  OperationInfo info = comm::calls::message(kind, data, peer, member());
  info.communicator = group.name;
  info.communicator_id = group.id;
  info.label = state_->label;
  info.sequence = tag.sequence;
  if (auto noted = group.control->note(info, data, tag)) return noted;
  return comm::make_message(std::move(info), data, group.transport, tag);
}

std::shared_ptr<comm::Operation> Communicator::message(OpKind kind, const Tensor& data, int peer,
                                                       int channel) const {
  comm::GroupState& group = *state_->group;
  std::uint32_t& number = (kind == OpKind::kSend ? group.sent : group.received)[{peer, channel}];
  auto operation = tagged(kind, data, peer,
                          {.use = comm::Tag::Use::kPointToPoint,
                           .lane = static_cast<std::uint16_t>(channel),
                           .sequence = number});
  ++number;
  return operation;
}

std::shared_ptr<comm::Operation> Communicator::named(OpKind kind, const Tensor& data, int peer,
                                                     const MessageName& name) const {
  comm::calls::expect_channel(kind, name.channel);
  return tagged(kind, data, peer,
                {.use = comm::Tag::Use::kNamed,
                 .lane = static_cast<std::uint16_t>(name.channel),
                 .sequence = name.number});
}

std::shared_ptr<comm::Operation> Communicator::shift(const Tensor& send, const Tensor& receive,
                                                     int distance) const {
  comm::calls::expect_shift(send, receive);
  const int p = size();
  const int step = ((distance % p) + p) % p;
  auto sending = message(OpKind::kSend, send, (rank() + step) % p, comm::calls::kShiftChannel);
  auto receiving =
      message(OpKind::kRecv, receive, (rank() + p - step) % p, comm::calls::kShiftChannel);
  OperationInfo info = sending->info();
  return comm::make_shift(std::move(info), std::move(sending), std::move(receiving));
}

PendingCall Communicator::send(const Tensor& data, int peer, int channel) const {
  comm::calls::expect_channel(OpKind::kSend, channel);
  return pending(message(OpKind::kSend, data, peer, channel));
}

PendingCall Communicator::recv(const Tensor& data, int peer, int channel) const {
  comm::calls::expect_channel(OpKind::kRecv, channel);
  return pending(message(OpKind::kRecv, data, peer, channel));
}

PendingCall Communicator::send(const Tensor& data, int peer, const MessageName& name) const {
  return pending(named(OpKind::kSend, data, peer, name));
}
PendingCall Communicator::recv(const Tensor& data, int peer, const MessageName& name) const {
  return pending(named(OpKind::kRecv, data, peer, name));
}

PendingCall Communicator::ring_shift(const Tensor& send, const Tensor& receive,
                                     int distance) const {
  return pending(shift(send, receive, distance));
}

void Communicator::progress() const { state_->group->own->engine->poll(); }
CommStats Communicator::stats() const { return state_->group->own->engine->stats(); }
void Communicator::set_observer(CommObserver* observer) const {
  state_->group->own->engine->set_observer(observer);
}

}  // namespace ultra
