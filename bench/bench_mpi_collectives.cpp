/// All-reduce against MPI's own and against memory, in one run.
///
/// For 2 and 4 ranks and each size, the time of the slowest rank, median over the runs; data is
/// written anew before each run, so that it has to move:
///   MPI      MPI_Allreduce itself, blocking
///   ring     our ring over MPI's send and receive           (wanted: ring/MPI at most 1 from 1 MiB)
///   threads  ranks as threads, over each other's memory     (wanted: MPI/threads at least 1.5)
///   floor    each thread copies as many bytes as it reduces: every byte read once, written once
/// Starts itself under mpirun for the first two. Ratios count; times are of this machine, now.

#include <fmt/format.h>
#include <mpi.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/mpirun.hpp"
#include "bench/timing.hpp"
#include "build_config.hpp"
#include "chapters/02_collectives/bench/collective_bench.hpp"
#include "chapters/02_collectives/bench/collective_case.hpp"
#include "common/comm/run_ranks.hpp"

namespace {

using namespace ultra;
using bench::median;
using bench::now;
using collectives::BenchRequest;
using Seconds = std::map<std::size_t, double>;  // by bytes

constexpr std::array<std::size_t, 7> kSizes = {1 << 10, 64 << 10, 256 << 10, 1 << 20,
                                               4 << 20, 16 << 20, 64 << 20};

std::size_t runs_for(std::size_t bytes) { return bytes >= (16U << 20U) ? 9 : 41; }

Seconds measure(const Communicator& world, const std::string& algorithm) {
  Seconds seconds;
  for (const std::size_t bytes : kSizes) {
    const BenchRequest request{.op = OpKind::kAllReduce,
                               .algorithms = {algorithm},
                               .sizes = {bytes},
                               .iterations = runs_for(bytes),
                               .check = collectives::CheckResults::kOff};
    seconds[bytes] = collectives::measure_collective(request, world).front().seconds;
  }
  return seconds;
}

/// The median over `runs` of the slowest rank's time for `fn`, after `prepare`.
double time_slowest(const Communicator& world, std::size_t runs,
                    const std::function<void()>& prepare, const std::function<void()>& fn) {
  const Tensor times = Tensor::zeros(Device::cpu(), {runs}, DType::kF64);
  for (std::size_t i = 0; i < runs; ++i) {
    prepare();
    world.barrier().wait();
    const double begin = now();
    fn();
    times.data<double>()[i] = now() - begin;
  }
  world.all_reduce(times, ReduceOp::kMax).wait();
  return median(times.to_vector());
}

Seconds measure_mpi(const Communicator& world) {
  Seconds seconds;
  for (const std::size_t bytes : kSizes) {
    const auto count = static_cast<int>(bytes / sizeof(float));
    const std::vector<float> contribution(bytes / sizeof(float), 1.0F);
    std::vector<float> data(contribution);
    const auto reduce = [&] {
      MPI_Allreduce(MPI_IN_PLACE, data.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    };
    reduce();
    seconds[bytes] = time_slowest(
        world, runs_for(bytes), [&] { data = contribution; }, reduce);
  }
  return seconds;
}

/// What each thread takes to copy as much as it reads and writes in an all-reduce.
Seconds measure_floor(const Communicator& world) {
  Seconds seconds;
  for (const std::size_t bytes : kSizes) {
    std::vector<char> from(bytes, 'a');
    std::vector<char> to(bytes, 'b');
    const auto refresh = [&] { std::memset(from.data(), 'c', bytes); };
    const auto copy = [&] { std::memcpy(to.data(), from.data(), bytes); };
    seconds[bytes] = time_slowest(world, runs_for(bytes), refresh, copy);
  }
  return seconds;
}

RankOptions unchecked() {
  RankOptions options;
  options.checking = Checking::kOff;
  return options;
}

/// Under mpirun: one line per size, for the process that started mpirun.
void report_mpi(int ranks) {
  run_ranks(
      ranks,
      [](Communicator& world) {
        Seconds mpi = measure_mpi(world);
        Seconds ring = measure(world, "ring");
        if (world.rank() != 0) return;
        for (const std::size_t bytes : kSizes) {
          fmt::print("{} {} {}\n", bytes, mpi[bytes], ring[bytes]);
        }
      },
      unchecked());
}

struct MpiTimes {
  Seconds mpi;
  Seconds ring;
};

MpiTimes start_under_mpirun(const std::string& self, int ranks) {
  bench::let_root_use_mpirun();
  const std::string command = fmt::format("{} --oversubscribe --bind-to none -n {} {} {}",
                                          build::kMpirun, ranks, self, ranks);
  MpiTimes times;
  FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) return times;
  std::size_t bytes = 0;
  double mpi = 0;
  double ring = 0;
  while (std::fscanf(output, "%zu %lf %lf", &bytes, &mpi, &ring) == 3) {
    times.mpi[bytes] = mpi;
    times.ring[bytes] = ring;
  }
  pclose(output);
  return times;
}

void compare(const std::string& self, int ranks) {
  Seconds threads;
  Seconds floor;
  run_ranks(
      ranks,
      [&](Communicator& world) {
        Seconds own = measure(world, "native");
        Seconds copies = measure_floor(world);
        if (world.rank() != 0) return;
        threads = std::move(own);
        floor = std::move(copies);
      },
      unchecked());
  MpiTimes times = start_under_mpirun(self, ranks);
  fmt::print(
      "all_reduce of f32 on {} ranks, microseconds\n{:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>12} "
      "{:>14}\n",
      ranks, "bytes", "MPI", "ring", "threads", "floor", "ring/MPI", "MPI/threads",
      "floor/threads");
  for (const std::size_t bytes : kSizes) {
    fmt::print("{:>10} {:9.1f} {:9.1f} {:9.1f} {:9.1f} {:9.2f} {:12.2f} {:14.2f}\n", bytes,
               times.mpi[bytes] * 1e6, times.ring[bytes] * 1e6, threads[bytes] * 1e6,
               floor[bytes] * 1e6, times.ring[bytes] / times.mpi[bytes],
               times.mpi[bytes] / threads[bytes], floor[bytes] / threads[bytes]);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (launched_world_size()) {
    report_mpi(argc > 1 ? std::atoi(argv[1]) : *launched_world_size());
    return 0;
  }
  for (const int ranks : {2, 4}) compare(argv[0], ranks);
}
