/// 08_expert_parallel: trains mixtures of experts that are dealt out to ranks; or says how
/// much memory that takes.

#include "chapters/01_memory/memory.hpp"
#include "chapters/02_collectives/collectives.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/checkpoints/checkpointed_worker.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "chapters/07_pipeline_parallel/table/pp_table_options.hpp"
#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "common/train/cli/run_techniques.hpp"

int main(int argc, char** argv) {
  using namespace ultra;
  return train::run_techniques(
      "08_expert_parallel",
      "Trains a small Llama-style model with experts that are dealt out to ranks.",
      [] {
        return train::list_of(memory::technique(), collectives::technique(),
                              data_parallel::technique(), zero::technique(), zero::checkpoints(),
                              zero::offload(), tensor_parallel::technique(),
                              context_parallel::technique(), pipeline_parallel::technique(),
                              pipeline_parallel::schedule_table(), expert_parallel::technique());
      },
      argc, argv);
}
