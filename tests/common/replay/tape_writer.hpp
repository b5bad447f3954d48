#pragma once
/// @file
/// Tapes by hand, and a cluster on which a byte takes a second.

#include "common/replay/replay.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::replay::test {

using namespace ultra::test;

using gpu::EntryKind;
using gpu::EventId;
using gpu::ExchangeKind;
using gpu::StreamRole;
using gpu::Tape;
using gpu::TapedGroup;
using gpu::WorkKind;

inline constexpr StreamRole kCompute = StreamRole::kCompute;
inline constexpr StreamRole kCommunication = StreamRole::kCommunication;

/// @brief Bytes, and FLOP of products, take a second each; nothing else takes time.
inline Cluster unit_cluster(int gpus_per_node = 8) {
  Cluster cluster;
  cluster.gpu.memory_bandwidth = 1;
  cluster.gpu.kernel_seconds = 0;
  cluster.gpu.efficiency = {.products = 1, .memory = 1, .network = 1};
  cluster.gpu.measured_products = {{.m = 1, .k = 1, .n = 1, .flops = 1}};
  cluster.gpus_per_node = cluster.nics_per_node = gpus_per_node;
  cluster.intra = cluster.inter = {.latency = 0, .bandwidth = 1};
  cluster.host_bandwidth = 1;
  return cluster;
}

/// @brief An exchange takes its bytes in seconds, whoever takes part.
inline Prices unit_prices(Cluster cluster = unit_cluster()) {
  return {.cluster = std::move(cluster),
          .exchange = [](const Cluster&, const GroupPlacement&, ExchangeKind, double bytes) {
            return bytes;
          }};
}

/// @brief Writes a rank's tape.
class TapeWriter {
 public:
  explicit TapeWriter(int rank) : rank_(rank) { tape_.run(true); }

  /// @brief Elementwise work of so many seconds.
  void work(std::size_t seconds, StreamRole role = kCompute, const char* name = "work") {
    tape_.add(role, {.name = tape_.name(name), .written_bytes = seconds});
  }
  /// @brief An event behind what the stream has.
  EventId record(StreamRole role = kCompute) {
    const EventId event = tape_.new_event();
    tape_.add(EntryKind::kRecord, role, event);
    return event;
  }
  void wait(EventId event, StreamRole role = kCompute) { tape_.add(EntryKind::kWait, role, event); }
  void host_wait(EventId event) { tape_.add(EntryKind::kHostWait, kCompute, event); }
  /// @return the event at its end.
  EventId exchange(const TapedGroup& group, std::size_t seconds, EventId ready,
                   const char* label = "", bool of_host = false,
                   ExchangeKind kind = ExchangeKind::kAllReduce) {
    const std::uint32_t index = tape_.group(group);
    if (sequences_.size() <= index) sequences_.resize(index + 1);
    const EventId end = tape_.new_event();
    tape_.add(gpu::TapedExchange{.kind = kind,
                                 .group = index,
                                 .sequence = sequences_[index]++,
                                 .label = tape_.name(label),
                                 .bytes = seconds,
                                 .sent_bytes = 2 * seconds,
                                 .ready = ready,
                                 .end = end,
                                 .of_host = of_host});
    return end;
  }
  void send(int to, std::uint64_t name, std::size_t seconds, EventId ready) {
    message(to, name, seconds, ready, true);
  }
  /// @return the event at its end.
  EventId receive(int from, std::uint64_t name, std::size_t seconds, EventId ready = 0) {
    return message(from, name, seconds, ready, false);
  }

  [[nodiscard]] RankTape taped() const { return {.rank = rank_, .tape = &tape_}; }
  [[nodiscard]] Tape& tape() { return tape_; }

 private:
  EventId message(int peer, std::uint64_t name, std::size_t seconds, EventId ready, bool sends) {
    const EventId end = sends ? 0 : tape_.new_event();
    tape_.add(gpu::TapedMessage{.peer = peer,
                                .group = tape_.group({.name = "stages", .members = {}}),
                                .name = name,
                                .bytes = seconds,
                                .ready = ready,
                                .end = end,
                                .sends = sends});
    return end;
  }

  int rank_;
  Tape tape_;
  std::vector<std::uint32_t> sequences_;
};

/// @brief Their tapes, in their order.
inline std::vector<RankTape> tapes_of(const std::vector<TapeWriter>& ranks) {
  std::vector<RankTape> tapes;
  for (const TapeWriter& rank : ranks) tapes.push_back(rank.taped());
  return tapes;
}

/// @brief What the compute stream worked and waited for.
inline double accounted(const ReplayedRank& rank) {
  return rank.work() + rank.for_exchanges() + rank.for_a_stage + rank.for_streams +
         rank.for_the_host;
}

}  // namespace ultra::replay::test
