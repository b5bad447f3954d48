// For how long a checkpoint stops training: the time until the next step may begin, over that of a
// plain copy of as many bytes in memory, in one run. The rest is written while training goes on.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "bench/benchmark_model.hpp"
#include "bench/timing.hpp"
#include "bench/training_rank.hpp"
#include "chapters/04_zero/checkpoints/checkpoint_writer.hpp"
#include "chapters/04_zero/checkpoints/training_state.hpp"
#include "common/base/interrupt.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/train/cli/program.hpp"

namespace {

using namespace ultra;
using bench::median;
using bench::now;

/// A folder of this process alone, removed with all it holds at the end.
class OwnFolder {
 public:
  OwnFolder()
      : path_(std::filesystem::temp_directory_path() /
              ("bench_checkpoint-" + std::to_string(getpid()))) {}
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  ~OwnFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Seconds of a copy between two pieces of memory that have been used before.
double seconds_to_copy(std::size_t bytes) {
  const std::vector<char> from(bytes, 'a');
  std::vector<char> to(bytes, 'b');
  const double start = now();
  std::memcpy(to.data(), from.data(), bytes);
  benchmark::DoNotOptimize(to.data());
  return now() - start;
}

void checkpoint_against_copy(benchmark::State& state) {
  const nn::ModelConfig config = bench::benchmark_model(static_cast<std::size_t>(state.range(0)));
  const OwnFolder folder;
  const train::TrainOptions options = bench::benchmark_options(config, 1, 1);
  const data::Dataset text = bench::benchmark_text();
  std::vector<double> ratios;
  std::vector<double> shares;
  std::size_t bytes = 0;
  run_ranks(1, [&](Communicator& world) {
    bench::TrainingRank rank(world, options, text, {});
    benchmark::DoNotOptimize(rank.step());  // or there were no moments
    const zero::TrainingState saved(rank.state());
    for (const nn::NamedShape& parameter : saved.parameters()) {
      bytes += 3 * sizeof(float) * parameter.shape.numel();
    }
    zero::CheckpointWriter writer(checkpoint::posix_files(), folder.path(), 1, world);
    zero::TrainingRecord record{
        .identity = {.model = config, .data = {}}, .settings = {}, .steps = {}};
    for (auto _ : state) {
      throw_if_interrupted();
      record.steps.emplace_back().step = record.steps.size();
      const double start = now();
      writer.begin(saved, record);
      const double stopped = now() - start;
      writer.finish();
      const double all = now() - start;
      if (record.steps.size() == 1) continue;  // takes the memory for the copies from the system
      ratios.push_back(stopped / seconds_to_copy(bytes));
      shares.push_back(stopped / all);
    }
  });
  state.counters["stopped_over_copy"] = median(ratios);
  state.counters["stopped_share"] = median(shares);
  state.counters["MB"] = static_cast<double>(bytes) / 1e6;
}
BENCHMARK(checkpoint_against_copy)
    ->ArgName("hidden")
    ->Arg(384)
    ->Arg(1024)
    ->Unit(benchmark::kSecond)
    ->Iterations(8);

}  // namespace

/// Ctrl-C unwinds, so that no checkpoint stays behind.
int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const InterruptGuard guard;
  try {
    benchmark::RunSpecifiedBenchmarks();
  } catch (const Interrupted&) {
    return train::kExitInterrupted;
  }
  return 0;
}
