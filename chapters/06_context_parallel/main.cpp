/// 06_context_parallel: trains on sequences that are split over ranks; or says how
/// much memory that takes.

#include "chapters/01_memory/memory.hpp"
#include "chapters/02_collectives/collectives.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/checkpoints/checkpointed_worker.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "common/train/cli/run_techniques.hpp"

int main(int argc, char** argv) {
  using namespace ultra;
  return train::run_techniques(
      "06_context_parallel",
      "Trains a small Llama-style model on sequences that are split over ranks.",
      [] {
        return train::list_of(memory::technique(), collectives::technique(),
                              data_parallel::technique(), zero::technique(), zero::checkpoints(),
                              zero::offload(), tensor_parallel::technique(),
                              context_parallel::technique());
      },
      argc, argv);
}
