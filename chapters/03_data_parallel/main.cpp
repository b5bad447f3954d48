/// 03_data_parallel: trains replicas of a model that add up their gradients while they compute.

#include "chapters/01_memory/memory.hpp"
#include "chapters/02_collectives/collectives.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "common/train/cli/run_techniques.hpp"

int main(int argc, char** argv) {
  using namespace ultra;
  return train::run_techniques(
      "03_data_parallel",
      "Trains replicas of a small Llama-style model, each on its share of the batch.",
      [] {
        return train::list_of(memory::technique(), collectives::technique(),
                              data_parallel::technique());
      },
      argc, argv);
}
