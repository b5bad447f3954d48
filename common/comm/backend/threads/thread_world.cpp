#include "common/comm/backend/threads/thread_world.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/comm/comm_error.hpp"

namespace ultra::comm::threads {

void Bell::ring() {
  count_.fetch_add(1);
  if (sleepers_.load() == 0) return;
  {
    const std::scoped_lock lock(mutex_);  // a sleeper has looked at the count, or will
  }
  wake_.notify_all();
}

void Bell::sleep(std::uint64_t seen, RankMonitor::Clock::time_point until) {
  std::unique_lock lock(mutex_);
  sleepers_.fetch_add(1);  // before the count is read: ring() reads them the other way round
  wake_.wait_until(lock, until, [&] { return count_.load() != seen; });
  sleepers_.fetch_sub(1);
}

namespace {

const char* memory_name(const Place& place) { return place.device ? "a device" : "the host"; }

void expect_fit(const Posted& message, const Landing& landing) {
  if (message.data.size() != landing.memory.size()) {
    throw CommMismatch(fmt::format("rank {} sends {} bytes where this rank expects {}",
                                   message.envelope.source, message.data.size(),
                                   landing.memory.size()));
  }
  if ((message.place.device == nullptr) == (landing.place.device == nullptr)) return;
  throw CommMismatch(
      fmt::format("rank {} sends from the memory of {} where this rank receives into that of {}",
                  message.envelope.source, memory_name(message.place), memory_name(landing.place)));
}

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

void Mailbox::post(std::shared_ptr<Posted> message) {
  const std::scoped_lock lock(mutex_);
  messages_.push_back(std::move(message));
}

std::uint64_t Mailbox::expect(const Envelope& envelope) {
  const std::scoped_lock lock(mutex_);
  expected_.push_back({.receive = receives_, .envelope = envelope});
  return receives_++;
}

Mailbox::Taken Mailbox::take(std::uint64_t receive, const Landing& landing) {
  const std::scoped_lock lock(mutex_);
  // In the order of their numbers: hundreds may wait, and each of them asks again and again.
  const auto own = std::ranges::lower_bound(expected_, receive, {}, &Expected::receive);
  ensure(own != expected_.end() && own->receive == receive, "a receive takes one message");
  const Envelope envelope = own->envelope;
  const auto found =
      std::ranges::find(messages_, envelope, [](const auto& message) { return message->envelope; });
  if (found == messages_.end()) return {};
  if (std::ranges::find(expected_, envelope, &Expected::envelope) != own) return {};
  expect_fit(**found, landing);
  std::shared_ptr<Posted> message = std::move(*found);
  messages_.erase(found);
  expected_.erase(own);
  message->stage.store(Posted::Stage::kTaken);
  const bool next_waits =
      std::ranges::find(expected_, envelope, &Expected::envelope) != expected_.end();
  return {.message = std::move(message), .next_waits = next_waits};
}

void Mailbox::forget(std::uint64_t receive) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(expected_, [&](const Expected& expected) { return expected.receive == receive; });
}

bool Mailbox::withdraw(const Posted& message) {
  const std::scoped_lock lock(mutex_);
  const auto found =
      std::ranges::find(messages_, &message, [](const auto& posted) { return posted.get(); });
  if (found == messages_.end()) return false;
  messages_.erase(found);
  return true;
}

ThreadWorld::ThreadWorld(int size) {
  for (int rank = 0; rank < size; ++rank) ranks_.push_back(std::make_unique<Rank>());
}

std::shared_ptr<DirectBoard> ThreadWorld::board(std::uint64_t context,
                                                std::span<const int> members) {
  const std::scoped_lock lock(mutex_);
  std::weak_ptr<DirectBoard>& known = boards_[context];
  std::shared_ptr<DirectBoard> board = known.lock();
  if (!board) {
    std::vector<Bell*> bells;
    for (const int member : members) bells.push_back(&bell(member));
    board = std::make_shared<DirectBoard>(std::vector<int>(members.begin(), members.end()),
                                          std::move(bells));
    known = board;
  }
  return board;
}

void ThreadWorld::fail(int rank, std::exception_ptr error) {
  {
    const std::scoped_lock lock(mutex_);
    ranks_[static_cast<std::size_t>(rank)]->doing = Doing::kFinished;
    if (has_failed_) return;
    failed_rank_ = rank;
    failure_ = std::move(error);
    has_failed_ = true;
  }
  for (const auto& other : ranks_) other->bell.ring();
}

std::exception_ptr ThreadWorld::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

void ThreadWorld::check(int rank, const std::string& doing) const {
  if (!has_failed_ || failed_rank_ == rank) return;
  throw RankFailed(failed_rank_, kind_of(failure_),
                   fmt::format("rank {} has failed: {} (Rank {} waited in {}.)", failed_rank_,
                               message_of(failure_), rank, doing));
}

void ThreadWorld::started(int rank) {
  const std::scoped_lock lock(mutex_);
  ranks_[static_cast<std::size_t>(rank)]->thread = gettid();
}

void ThreadWorld::finished(int rank) {
  const std::scoped_lock lock(mutex_);
  Rank& own = *ranks_[static_cast<std::size_t>(rank)];
  own.doing = Doing::kFinished;
  own.what.clear();
}

void ThreadWorld::blocked(int rank, std::uint64_t seen, const std::string& doing) {
  const std::scoped_lock lock(mutex_);
  Rank& own = *ranks_[static_cast<std::size_t>(rank)];
  own.doing = Doing::kBlocked;
  own.seen = seen;
  own.what = doing;
  if (has_failed_ || !nobody_can_move()) return;
  throw Deadlock(fmt::format("deadlock: no rank can move.{}", all_that_wait()));
}

void ThreadWorld::moving(int rank) {
  const std::scoped_lock lock(mutex_);
  ranks_[static_cast<std::size_t>(rank)]->doing = Doing::kMoving;
}

std::vector<RankActivity> ThreadWorld::activities() const {
  const std::scoped_lock lock(mutex_);
  std::vector<RankActivity> activities;
  for (const auto& rank : ranks_) {
    RankActivity& activity = activities.emplace_back();
    switch (rank->doing) {
      case Doing::kMoving:
        activity.state = RankActivity::State::kComputes;
        activity.processor = processor_time(getpid(), rank->thread);
        break;
      case Doing::kBlocked:
        activity.state = RankActivity::State::kWaits;
        activity.waits_in = rank->what;
        activity.processor = processor_time(getpid(), rank->thread);
        break;
      case Doing::kFinished:
        activity.state = RankActivity::State::kFinished;
        break;
    }
  }
  return activities;
}

bool ThreadWorld::nobody_can_move() const {
  // Only a rank that can move rings bells, and it counts as one until it takes mutex_ to say that it
  // is blocked. So whoever rings while the ranks are looked at is found further on.
  return std::ranges::none_of(ranks_, [](const auto& rank) {
    return rank->doing == Doing::kMoving ||
           (rank->doing == Doing::kBlocked && rank->seen != rank->bell.count());
  });
}

std::string ThreadWorld::all_that_wait() const {
  std::string text;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    text += ranks_[rank]->doing == Doing::kFinished
                ? fmt::format(" Rank {} has returned from its function.", rank)
                : fmt::format(" Rank {} waits in {}.", rank, ranks_[rank]->what);
  }
  return text;
}

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
