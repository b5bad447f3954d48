#include "chapters/02_collectives/algorithms/compact_step.hpp"

#include <fmt/format.h>

#include "chapters/02_collectives/simulator/link_simulator.hpp"

namespace ultra::collectives {
namespace {

void check(const comm::Round& step, const StepPlace& place) {
  const auto [rank, ranks, lane, index] = place;
  const auto fail = [&, rank = rank, lane = lane, index = index](const std::string& what) {
    throw ScheduleError(fmt::format("rank {}, lane {}, step {}: {}. The step {}.", rank, lane,
                                    index, what, comm::to_string(step)));
  };
  for (const int peer : {step.send_to, step.receive_from}) {
    if (peer != comm::kNobody && (peer < 0 || peer >= ranks)) {
      fail(fmt::format("there is no rank {}, only 0 to {}", peer, ranks - 1));
    }
  }
  if ((step.send_to == rank) != (step.receive_from == rank)) {
    fail("a rank's message to itself is sent and received in one step");
  }
  if (step.send_to == rank && step.send.range.size() != step.receive.range.size()) {
    fail("a copy within a rank reads and writes different numbers of elements");
  }
  if (step.send.range.size() > CompactStep::kMaxCount ||
      step.receive.range.size() > CompactStep::kMaxCount) {
    fail(fmt::format("a message of more than {} elements", CompactStep::kMaxCount));
  }
}

std::uint64_t peer_bits(int peer) {
  return peer == comm::kNobody ? CompactStep::kNoPeer : static_cast<std::uint64_t>(peer);
}

}  // namespace

CompactStep compact(const comm::Round& step, const StepPlace& place) {
  check(step, place);
  CompactStep result{};
  result.send_to = peer_bits(step.send_to) & CompactStep::kNoPeer;
  result.send_count = step.send.range.size() & CompactStep::kMaxCount;
  result.reduces = step.on_receive == comm::OnReceive::kReduce ? 1U : 0U;
  result.receive_from = peer_bits(step.receive_from) & CompactStep::kNoPeer;
  result.receive_count = step.receive.range.size() & CompactStep::kMaxCount;
  return result;
}

}  // namespace ultra::collectives
