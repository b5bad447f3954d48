#include "common/comm/backend/threads/thread_ranks.hpp"

#include <fmt/format.h>

#include <system_error>
#include <thread>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/comm/backend/threads/thread_world.hpp"

namespace ultra::comm::threads {
namespace {

// Looks of a waiting rank before it sleeps, when every rank has a core of its own.
constexpr int kSpins = 4000;

class ThreadMonitor : public RankMonitor {
 public:
  ThreadMonitor(std::shared_ptr<ThreadWorld> world, int rank)
      : world_(std::move(world)),
        rank_(rank),
        spins_(static_cast<int>(std::thread::hardware_concurrency()) >= world_->size() ? kSpins
                                                                                       : 0) {}

  int world_rank() const override { return rank_; }
  std::uint64_t events() const override { return world_->bell(rank_).count(); }
  void sleep(std::uint64_t seen, Clock::time_point until) override {
    world_->bell(rank_).sleep(seen, until);
  }
  void wake() override { world_->bell(rank_).ring(); }
  int spins() const override { return spins_; }
  void check(const std::string& doing) override {
    world_->check(rank_, doing);
    throw_if_interrupted();
  }
  void report_blocked(std::uint64_t seen, const std::string& doing) override {
    world_->blocked(rank_, seen, doing);
  }
  void report_moving() override { world_->moving(rank_); }
  std::vector<RankActivity> activities() override { return world_->activities(); }

 private:
  std::shared_ptr<ThreadWorld> world_;
  int rank_;
  int spins_;
};

void run_rank(const std::shared_ptr<ThreadWorld>& world, int rank, const RankBody& body) {
  try {
    world->started(rank);
    body(make_transport(world, rank), std::make_shared<ThreadMonitor>(world, rank));
    world->finished(rank);
  } catch (...) {
    world->fail(rank, std::current_exception());
  }
}

}  // namespace

void run_ranks(int world_size, const RankBody& body) {
  const auto world = std::make_shared<ThreadWorld>(world_size);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < world_size; ++rank) {
      try {
        threads.emplace_back([&world, rank, &body] { run_rank(world, rank, body); });
      } catch (const std::system_error& error) {  // those that run must not wait for this one
        world->fail(rank, std::make_exception_ptr(ConfigError(fmt::format(
                              "the system gives this process {} threads, not the {} of {} ranks "
                              "({}). Use fewer ranks, or raise its limits (ulimit -u, -v, -s).",
                              rank, world_size, world_size, error.code().message()))));
        break;
      }
    }
  }
  if (const std::exception_ptr failure = world->failure()) std::rethrow_exception(failure);
}

}  // namespace ultra::comm::threads
