// failing_ranks HOW [CULPRIT [as-program]]: four ranks in which one, rank 1 unless it is named, does
// not do its part. Started under mpirun by tests/common/comm/backend/mpi/watch/failing_processes_test.cpp.
//
//   ok       it does
//   throws   it throws
//   killed   it kills itself, in mid-run
//   aborts   it calls std::abort, in mid-run
//   exits    it leaves, in mid-run, without a word
//   hangs    it never comes to the second all-reduce, and would not for a long time
//   spins    the same, while it computes
//   hungry   its memory is too small, in mid-run
//   leaves   its program ends well, but before the second run_ranks
//   refused  it does not accept its command line
//   early    it kills itself before it starts MPI
//   starting it kills itself while MPI starts
//   absent   it does not start MPI for a long time
// Every rank prints a line for its error and exits with 2; as-program, they do what the workbook's
// programs do.

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "common/base/errors.hpp"
#include "common/comm/backend/launch.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/train/cli/program.hpp"

namespace {

using ultra::Communicator;
using ultra::Tensor;

/// What a rank does wrong, and which.
struct Fault {
  std::string how = "ok";
  int culprit = 1;

  [[nodiscard]] bool is(const char* what) const {
    return how == what && ultra::launched_rank() == culprit;
  }
};

[[noreturn]] void compute_for_ever() {
  volatile double sink = 0;
  while (true) sink = sink + 1;
}

/// Returns when all processes of the launch have come here, and so would say that they were told to
/// stop: before, mpirun's signal ends a process that cannot say anything yet.
void wait_for_the_others() {
  const char* const folder = std::getenv("PMIX_SERVER_TMPDIR");
  const char* const job = std::getenv("PMIX_NAMESPACE");
  const std::optional<ultra::comm::Launch> launch = ultra::comm::find_launch();
  if (folder == nullptr || job == nullptr || !launch) return;
  const auto sign_of = [&](int rank) { return fmt::format("{}/here.{}.{}", folder, job, rank); };
  std::ofstream(sign_of(launch->rank)).put('\n');
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(15);
  for (int rank = 0; rank < launch->size; ++rank) {
    while (!std::filesystem::exists(sign_of(rank)) && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
}

void fail_before_mpi(const Fault& fault) {
  if (fault.how == "early" || fault.how == "starting") wait_for_the_others();
  if (fault.is("refused")) throw ultra::ConfigError("--steps is wrong");
  if (fault.is("early")) kill(getpid(), SIGKILL);
  if (fault.is("absent")) std::this_thread::sleep_for(std::chrono::minutes(5));
  if (!fault.is("starting")) return;
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    kill(getpid(), SIGKILL);
  }).detach();
}

void fail(const std::string& how) {
  if (how == "throws") throw ultra::ConfigError("the culprit's own words");
  if (how == "killed") kill(getpid(), SIGKILL);
  if (how == "aborts") std::abort();
  if (how == "exits") _exit(0);
  if (how == "hangs") std::this_thread::sleep_for(std::chrono::minutes(5));
  if (how == "spins") compute_for_ever();
  if (how == "hungry") {
    ultra::Device device = ultra::Device::cpu();
    device.set_memory_limit(1000);
    static_cast<void>(Tensor::zeros(device, {1000}, ultra::DType::kF64));
  }
}

void run(const Fault& fault) {
  fail_before_mpi(fault);
  ultra::RankOptions options;
  options.timeout = std::chrono::seconds(2);
  ultra::run_ranks(
      4,
      [&](Communicator& world) {
        const Tensor data = Tensor::zeros(ultra::Device::cpu(), {100000}, ultra::DType::kF32);
        world.all_reduce(data).wait();
        if (world.rank() == fault.culprit) fail(fault.how);
        world.all_reduce(data).wait();
      },
      options);
  if (fault.is("leaves")) std::exit(0);
  ultra::run_ranks(
      4, [](Communicator& world) { world.barrier().wait(); }, options);
}

}  // namespace

int main(int argc, char** argv) {
  Fault fault;
  if (argc > 1) fault.how = argv[1];
  if (argc > 2) fault.culprit = std::atoi(argv[2]);
  if (argc > 3) {
    return ultra::train::run_program({.name = "failing_ranks",
                                      .description = "Ranks that fail.",
                                      .add_flags = [](CLI::App&) {},
                                      .body = [&] { run(fault); }},
                                     1, argv);
  }
  try {
    run(fault);
  } catch (const std::exception& error) {
    // One write per line, so that lines of several processes do not mix.
    const std::string line = fmt::format("<{}> {}\n", ultra::launched_rank(), error.what());
    std::fputs(line.c_str(), stderr);
    return 2;
  }
  return 0;
}
