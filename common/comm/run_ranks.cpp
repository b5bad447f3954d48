#include "common/comm/run_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "common/base/errors.hpp"
#include "common/comm/backend/mpi/mpi_ranks.hpp"
#include "common/comm/backend/threads/thread_world.hpp"
#include "common/comm/engine/group_state.hpp"

namespace ultra {
namespace {

void expect_possible(int world_size, const RankOptions& options) {
  if (world_size < 1) {
    throw ConfigError(fmt::format("a world has at least 1 rank, not {}", world_size));
  }
  if (options.link && !options.algorithms) throw comm::native_on_slowed_link();
  const std::optional<int> launched = launched_world_size();
  if (launched && *launched < world_size) {
    throw ConfigError(
        fmt::format("{} ranks are asked for, but mpirun started {} process{}. Start "
                    "it with -n {}.",
                    world_size, *launched, *launched == 1 ? "" : "es", world_size));
  }
}

using Clock = comm::RankMonitor::Clock;

/// When the rank must look at what it has delayed itself, or what wakes nobody.
std::function<std::optional<Clock::time_point>()> alarm_of(const comm::RankState& rank) {
  return [link = rank.link, polling = rank.polling]() -> std::optional<Clock::time_point> {
    const auto arrival = link ? link->next_arrival() : std::nullopt;
    const auto look = polling->next_look();
    if (!arrival || !look) return arrival ? arrival : look;
    return std::min(*arrival, *look);
  };
}

std::shared_ptr<comm::RankState> make_rank(const RankOptions& options,
                                           std::shared_ptr<comm::RankMonitor> monitor) {
  auto rank = std::make_shared<comm::RankState>();
  comm::EngineOptions engine{
      .timeout = options.timeout, .progress = options.progress, .next_alarm = {}};
  if (options.link) rank->link = std::make_shared<comm::SlowLink>(*options.link);
  rank->polling = std::make_shared<comm::Polling>();
  if (launched_world_size()) rank->staging = std::make_shared<comm::Staging>(rank->polling);
  rank->nccl = {.otherwise = launched_world_size() ? comm::nccl::Use::Otherwise::kRefuse
                                                   : comm::nccl::Use::Otherwise::kInner,
                .messages = launched_world_size() || !options.nccl_library.empty(),
                .library = options.nccl_library};
  engine.next_alarm = alarm_of(*rank);
  rank->checking = options.checking;
  rank->engine = std::make_shared<comm::ProgressEngine>(std::move(monitor), std::move(engine));
  return rank;
}

/// Drops what is under way when a rank leaves, with an error or without.
class AbandonAtEnd {
 public:
  explicit AbandonAtEnd(comm::ProgressEngine& engine) : engine_(engine) {}
  AbandonAtEnd(const AbandonAtEnd&) = delete;
  AbandonAtEnd& operator=(const AbandonAtEnd&) = delete;
  ~AbandonAtEnd() { engine_.abandon(); }

 private:
  comm::ProgressEngine& engine_;
};

/// Ranks have memory of their own: which of them had too little is news. Rank 0 names the other
/// processes of an mpirun anyway.
void name_the_rank_out_of_memory(const Communicator& world, const std::function<void()>& fn) {
  if (world.size() == 1 || launched_rank() != 0) return fn();
  try {
    fn();
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(fmt::format("rank {}: {}", world.rank(), error.what()));
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(fmt::format("rank {}: the system has no more memory to give", world.rank()));
  }
}

}  // namespace

void run_ranks(int world_size, const std::function<void(Communicator& world)>& fn,
               const RankOptions& options) {
  expect_possible(world_size, options);
  const comm::RankBody body = [&](std::unique_ptr<comm::Transport> transport,
                                  std::shared_ptr<comm::RankMonitor> monitor) {
    const auto rank = make_rank(options, std::move(monitor));
    const AbandonAtEnd abandon(*rank->engine);
    Communicator world(std::make_shared<Communicator::State>(Communicator::State{
        comm::GroupState::join(rank, std::move(transport), "world"), options.algorithms, {}}));
    name_the_rank_out_of_memory(world, [&] { fn(world); });
    rank->engine->finish();
  };
  if (launched_world_size()) {
    comm::mpi::run_ranks(world_size, body, options.timeout);
  } else {
    comm::threads::run_ranks(world_size, body);
  }
}

std::optional<int> launched_world_size() { return comm::mpi::launched_world_size(); }

void expect_usable_launch() { comm::mpi::expect_usable(); }

bool reports_for_all() { return comm::mpi::reports_for_all(); }

int launched_rank() { return launched_world_size() ? comm::mpi::launched_rank() : 0; }

}  // namespace ultra
