// How fast steps are recorded: of one rank, of a pipeline's stages, of a mixture of experts, and of
// groups of thousands of ranks. items_per_second are entries of tapes.

#include <benchmark/benchmark.h>

#include <sstream>
#include <string>
#include <vector>

#include "chapters/11_five_d/five_d.hpp"
#include "common/train/cli/run_techniques.hpp"
#include "common/train/elsewhere/record_step.hpp"

namespace {

using namespace ultra;

void record(benchmark::State& state, const std::string& line) {
  std::istringstream words(line);
  std::vector<std::string> flags;
  for (std::string word; words >> word;) flags.push_back(word);
  const train::Setup setup = train::parse_setup(five_d::techniques(), flags);
  const std::vector<int> ranks = train::ranks_that_differ(setup);
  std::size_t entries = 0;
  for (auto _ : state) {
    for (const train::RecordedRank& rank : train::record_ranks(setup, ranks)) {
      entries += rank.tape->entries.size();
    }
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(entries));
}

// Seconds that they may take on two cores: 0.2, 3, 1.5 and 5.
BENCHMARK_CAPTURE(record, llama_8b_on_32,
                  "--model llama-8b --tp 8 --sp on --zero 1 --seq 4096 --global-batch 32 "
                  "--micro-batch 1 --on dgx-h100:4")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(record, llama_70b_of_96_micro_batches,
                  "--model llama-70b --tp 8 --sp on --pp 8 --zero 1 --seq 2048 --global-batch 96 "
                  "--micro-batch 1 --on dgx-h100:8")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(record, llama_405b_on_16384,
                  "--model llama-405b --tp 8 --sp on --pp 16 --zero 1 --seq 8192 --global-batch "
                  "2048 --micro-batch 1 --on dgx-h100:2048")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(record, mixtral_on_4096,
                  "--model mixtral-8x7b --pp 4 --ep 8 --zero 1 --seq 4096 --global-batch 4096 "
                  "--micro-batch 1 --on dgx-h100:512")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
