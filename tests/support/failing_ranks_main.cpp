// failing_ranks HOW: four ranks in which rank 1 does not do its part. Started under mpirun by
// tests/common/comm/backend/mpi/failing_processes_test.cpp.
//
//   ok      it does
//   throws  it throws
//   killed  it kills itself, in mid-run
//   aborts  it calls std::abort, in mid-run
//   exits   it leaves, in mid-run, without a word
//   hangs   it never comes to the second all-reduce, and would not for a long time
//   leaves  its program ends well, but before the second run_ranks
// Like the workbook's programs it prints one line per error and exits with 2.

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

#include "common/base/errors.hpp"
#include "common/comm/run_ranks.hpp"

namespace {

using ultra::Communicator;
using ultra::Tensor;

constexpr int kCulprit = 1;

void fail(const std::string& how) {
  if (how == "throws") throw ultra::ConfigError("the culprit's own words");
  if (how == "killed") kill(getpid(), SIGKILL);
  if (how == "aborts") std::abort();
  if (how == "exits") _exit(0);
  if (how == "hangs") std::this_thread::sleep_for(std::chrono::minutes(5));
}

void run(const std::string& how) {
  ultra::RankOptions options;
  options.timeout = std::chrono::seconds(2);
  ultra::run_ranks(
      4,
      [&](Communicator& world) {
        const Tensor data = Tensor::zeros(ultra::Device::cpu(), {100000}, ultra::DType::kF32);
        world.all_reduce(data);
        if (world.rank() == kCulprit) fail(how);
        world.all_reduce(data);
      },
      options);
  if (how == "leaves" && ultra::launched_rank() == kCulprit) std::exit(0);
  ultra::run_ranks(
      4, [](Communicator& world) { world.barrier(); }, options);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "ok");
  } catch (const std::exception& error) {
    // One write per line, so that lines of several processes do not mix.
    const std::string line = fmt::format("<{}> {}\n", ultra::launched_rank(), error.what());
    std::fputs(line.c_str(), stderr);
    return 2;
  }
  return 0;
}
