/// 04_zero: trains replicas that share the model's states out among themselves; or says how much
/// memory that takes.

#include "chapters/01_memory/memory.hpp"
#include "chapters/02_collectives/collectives.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/checkpoints/checkpointed_worker.hpp"
#include "chapters/04_zero/zero.hpp"
#include "common/train/cli/run_techniques.hpp"

int main(int argc, char** argv) {
  using namespace ultra;
  return train::run_techniques(
      "04_zero", "Trains replicas of a small Llama-style model that share its states out.",
      [] {
        return train::list_of(memory::technique(), collectives::technique(),
                              data_parallel::technique(), zero::technique(), zero::checkpoints(),
                              zero::offload());
      },
      argc, argv);
}
