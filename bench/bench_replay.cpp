// How fast tapes are replayed: entries per second, of one rank and of a pipeline of ranks, with
// products priced by tiles and by measured shapes.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <vector>

#include "chapters/02_collectives/cost/exchange_price.hpp"
#include "common/replay/replay.hpp"

namespace {

using namespace ultra;
using gpu::EntryKind;
using gpu::EventId;
using gpu::StreamRole;
using gpu::WorkKind;

constexpr std::size_t kBlocks = 8;
constexpr std::size_t kMicroBatches = 64;

/// A stage of a pipeline: blocks of products and elementwise work that wait for sums of their node,
/// and a sum of gradients between nodes for each block of the last micro-batch.
class Stage {
 public:
  Stage(int stage, int stages) : stage_(stage), stages_(stages) {
    node_.members = {8 * stage, 8 * stage + 1};
    replicas_.members = {8 * stage, 8 * (stage + stages)};
    tape_.run(true);
    for (std::size_t i = 0; i < kMicroBatches; ++i) pass(i, true);
    for (std::size_t i = 0; i < kMicroBatches; ++i) pass(i, false);
    for (const EventId end : ends_) tape_.add(EntryKind::kWait, StreamRole::kCompute, end);
    tape_.add(EntryKind::kHostWait, StreamRole::kCompute, record());
  }

  [[nodiscard]] replay::RankTape taped() const { return {.rank = 8 * stage_, .tape = &tape_}; }

 private:
  EventId record() {
    const EventId event = tape_.new_event();
    tape_.add(EntryKind::kRecord, StreamRole::kCompute, event);
    return event;
  }

  EventId sum(const gpu::TapedGroup& group, std::uint32_t& sequence) {
    const EventId end = tape_.new_event();
    const EventId ready = record();
    tape_.add(gpu::TapedExchange{.kind = gpu::ExchangeKind::kAllReduce,
                                 .group = tape_.group(group),
                                 .sequence = sequence++,
                                 .bytes = 1U << 25U,
                                 .ready = ready,
                                 .end = end});
    return end;
  }

  void block(bool last) {
    for (std::size_t half = 0; half < 2; ++half) {
      for (std::size_t n = 1; n <= 4; ++n) {
        tape_.add(
            StreamRole::kCompute,
            {.kind = WorkKind::kProduct, .m = 4096, .k = 4096, .n = 1024 * n, .element_bytes = 2});
        for (int i = 0; i < 4; ++i) {
          tape_.add(StreamRole::kCompute, {.read_bytes = 1U << 25U, .written_bytes = 1U << 25U});
        }
      }
      tape_.add(EntryKind::kWait, StreamRole::kCompute, sum(node_, of_node_));
    }
    if (last) ends_.push_back(sum(replicas_, of_replicas_));
  }

  void pass(std::size_t micro_batch, bool forward) {
    gpu::TapedMessage message{.group = tape_.group({.name = "stages", .members = {}}),
                              .name = micro_batch,
                              .bytes = 1U << 25U};
    const int before = forward ? stage_ - 1 : stage_ + 1;
    const int behind = forward ? stage_ + 1 : stage_ - 1;
    if (before >= 0 && before < stages_) {
      message.peer = 8 * before;
      message.end = tape_.new_event();
      tape_.add(message);
      tape_.add(EntryKind::kWait, StreamRole::kCompute, message.end);
    }
    for (std::size_t i = 0; i < kBlocks; ++i) block(!forward && micro_batch + 1 == kMicroBatches);
    if (behind >= 0 && behind < stages_) {
      message.peer = 8 * behind;
      message.ready = record();
      message.end = 0;
      message.sends = true;
      tape_.add(message);
    }
  }

  int stage_;
  int stages_;
  gpu::Tape tape_;
  gpu::TapedGroup node_{.name = "node", .members = {}};
  gpu::TapedGroup replicas_{.name = "replicas", .members = {}};
  std::uint32_t of_node_ = 0;
  std::uint32_t of_replicas_ = 0;
  std::vector<EventId> ends_;
};

void entries(benchmark::State& state, const replay::Cluster& cluster) {
  const int stages = static_cast<int>(state.range(0));
  std::vector<Stage> ranks;
  for (int stage = 0; stage < stages; ++stage) ranks.emplace_back(stage, stages);
  std::vector<replay::RankTape> tapes;
  double entries = 0;
  for (const Stage& rank : ranks) {
    tapes.push_back(rank.taped());
    entries += static_cast<double>(tapes.back().tape->entries.size());
  }
  const replay::Prices prices{.cluster = cluster, .exchange = collectives::exchange_seconds};
  for (auto _ : state) benchmark::DoNotOptimize(replay::replay(tapes, prices));
  state.counters["entries_per_second"] =
      benchmark::Counter(entries, benchmark::Counter::kIsIterationInvariantRate);
}

void by_tiles(benchmark::State& state) { entries(state, *replay::find_cluster("dgx-h100")); }

void by_measured_products(benchmark::State& state) {
  replay::Cluster cluster = *replay::find_cluster("dgx-h100");
  for (double size = 64; size <= 65536; size *= 2) {
    for (const double k : {1024.0, 4096.0, 16384.0}) {
      cluster.gpu.measured_products.push_back({.m = size, .k = k, .n = size, .flops = 5e14});
    }
  }
  entries(state, cluster);
}

BENCHMARK(by_tiles)->ArgName("stages")->Arg(1)->Arg(8)->Unit(benchmark::kMillisecond);
BENCHMARK(by_measured_products)->ArgName("stages")->Arg(1)->Arg(8)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
