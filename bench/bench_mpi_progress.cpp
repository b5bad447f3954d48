/// How much of a transfer hides behind computation when ranks are processes, and who must move it.
///
/// Each rank begins a transfer, computes matrix products for about as long as the transfer takes, and
/// waits for the rest. MPI moves a message only while it is called, so somebody has to call it:
///   nobody   no one does until the rank waits (Progress::kOnCall)
///   thread   a thread of the rank's own looks, and sleeps in between (Progress::kThread)
///   on call  the rank itself does, between products (Communicator::progress)
/// "hidden" is the share of the shorter of the two that was saved: 100% is perfect overlap. "stolen" is
/// how much longer the products took than without a transfer.
///
/// Starts itself under mpirun: bench_mpi_progress [ranks, 2 by default]. On two quiet cores a slowed
/// ring hides 50% with nobody, 96 to 99% with the thread, which steals 2 to 5%, and 99% on call.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/mpirun.hpp"
#include "bench/timing.hpp"
#include "build_config.hpp"
#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/ops/matmul.hpp"

namespace {

using namespace ultra;
using bench::median;
using bench::now;

constexpr int kRounds = 9;

/// Products of small matrices, 0.2 ms or so each: what a layer's backward pass is made of.
class Products {
 public:
  void run(int count, const std::function<void()>& after_each) const {
    for (int i = 0; i < count; ++i) {
      ops::matmul_into(c_, a_, ops::Transpose::kNo, b_, ops::Transpose::kNo);
      after_each();
    }
  }

 private:
  static constexpr std::size_t kSize = 256;
  Device device_ = Device::cpu();
  Tensor a_ = Tensor::zeros(device_, {kSize, kSize}, DType::kF32);
  Tensor b_ = Tensor::zeros(device_, {kSize, kSize}, DType::kF32);
  Tensor c_ = Tensor::zeros(device_, {kSize, kSize}, DType::kF32);
};

/// What is sent while the rank computes.
struct Transfer {
  std::string name;
  std::function<Work(const Communicator&)> begin;
  std::optional<LinkSpeed> link;
  std::shared_ptr<const comm::CollectiveAlgorithms> algorithms;
};

struct Times {
  double compute = 0;   ///< the products alone
  double transfer = 0;  ///< the transfer alone
  double together = 0;  ///< begin, compute, wait
  double products = 0;  ///< the products while the transfer is under way
};

/// The time of `fn` on the slowest rank.
double slowest(const Communicator& world, const std::function<void()>& fn) {
  world.barrier().wait();
  const double begin = now();
  fn();
  const Tensor seconds = Tensor::zeros(Device::cpu(), {1}, DType::kF64);
  seconds.fill(now() - begin);
  world.all_reduce(seconds, ReduceOp::kMax).wait();
  return seconds.to_vector().front();
}

/// @param after_each  what the rank does between two products.
Times measure(const Communicator& world, const Transfer& transfer,
              const std::function<void()>& after_each) {
  const Products products;
  const auto nothing = [] {};
  products.run(50, nothing);
  transfer.begin(world).wait();
  std::vector<double> transfers;
  std::vector<double> single;
  for (int i = 0; i < kRounds; ++i) {
    transfers.push_back(slowest(world, [&] { transfer.begin(world).wait(); }));
    single.push_back(slowest(world, [&] { products.run(20, nothing); }) / 20);
  }
  const int count = std::max(1, static_cast<int>(median(transfers) / median(single)));
  std::vector<double> computes;
  std::vector<double> togethers;
  std::vector<double> meanwhile;
  for (int i = 0; i < kRounds; ++i) {
    computes.push_back(slowest(world, [&] { products.run(count, nothing); }));
    togethers.push_back(slowest(world, [&] {
      Work work = transfer.begin(world);
      const double begin = now();
      products.run(count, after_each);
      meanwhile.push_back(now() - begin);
      work.wait();
    }));
  }
  return {.compute = median(computes),
          .transfer = median(transfers),
          .together = median(togethers),
          .products = median(meanwhile)};
}

std::vector<Transfer> transfers() {
  const auto ring = std::make_shared<collectives::BookAlgorithms>(
      collectives::BookOptions{.names = {{OpKind::kAllReduce, "ring"}}});
  const LinkSpeed gigabit{.latency = 50e-6, .bytes_per_second = 1e9 / 8};
  const auto tensor = [](std::size_t bytes) {
    return Tensor::zeros(Device::cpu(), {bytes / sizeof(float)}, DType::kF32);
  };
  constexpr std::size_t kMega = std::size_t{1} << 20U;
  const auto shift = [=](std::size_t bytes) {
    return [send = tensor(bytes), receive = tensor(bytes)](const Communicator& world) {
      return world.ring_shift(send, receive);
    };
  };
  const auto reduce = [=](std::size_t bytes) {
    return [data = tensor(bytes)](const Communicator& world) { return world.all_reduce(data); };
  };
  return {{"shift 4 MB, 1 Gbit/s", shift(4 * kMega), gigabit, ring},
          {"ring all_reduce 4 MB, 1 Gbit/s", reduce(4 * kMega), gigabit, ring},
          // On shared memory the transfer is the core's own work: little can hide.
          {"ring all_reduce 64 MB", reduce(64 * kMega), std::nullopt, ring}};
}

void compare(int ranks, const Transfer& transfer) {
  struct Mode {
    const char* name;
    Progress progress;
    bool calls_between_products;
  };
  for (const Mode& mode :
       {Mode{"nobody", Progress::kOnCall, false}, Mode{"thread", Progress::kThread, false},
        Mode{"on call", Progress::kOnCall, true}}) {
    RankOptions options;
    options.checking = Checking::kOff;
    options.progress = mode.progress;
    options.link = transfer.link;
    options.algorithms = transfer.algorithms;
    run_ranks(
        ranks,
        [&](Communicator& world) {
          const Times t = measure(world, transfer, [&] {
            if (mode.calls_between_products) world.progress();
          });
          const double saved = t.compute + t.transfer - t.together;
          if (world.rank() != 0) return;
          fmt::print("{:32} {:8} {:8.1f} {:8.1f} {:8.1f} {:7.0f}% {:7.1f}%\n", transfer.name,
                     mode.name, t.compute * 1e3, t.transfer * 1e3, t.together * 1e3,
                     100 * saved / std::min(t.compute, t.transfer),
                     100 * (t.products / t.compute - 1));
          std::fflush(stdout);
        },
        options);
  }
}

/// Becomes the same program under mpirun; returns when there is none.
void start_under_mpirun(char** argv, const std::string& ranks) {
  const std::string mpirun(build::kMpirun);
  bench::let_root_use_mpirun();
  execl(mpirun.c_str(), mpirun.c_str(), "--oversubscribe", "--bind-to", "none", "-n", ranks.c_str(),
        argv[0], ranks.c_str(), nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_told = argc > 1 && std::atoi(argv[1]) > 0;
  const std::string ranks = is_told ? argv[1] : "2";
  if (!launched_world_size()) {
    start_under_mpirun(argv, ranks);
    fmt::print("skipped: there is no mpirun\n");
    return 0;
  }
  if (launched_rank() == 0) {
    fmt::print("{} ranks as processes; times in ms\n{:32} {:8} {:>8} {:>8} {:>8} {:>8} {:>8}\n",
               ranks, "transfer", "mover", "compute", "transfer", "together", "hidden", "stolen");
  }
  for (const Transfer& transfer : transfers()) compare(std::stoi(ranks), transfer);
}
