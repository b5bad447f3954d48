/// 03_parameter_server: trains replicas of a model whose weights and optimizer are kept by servers, ranks
/// beside them.

#include "chapters/01_memory/memory.hpp"
#include "chapters/02_collectives/collectives.hpp"
#include "chapters/03_data_parallel/parameter_server/server_technique.hpp"
#include "common/train/cli/run_techniques.hpp"

int main(int argc, char** argv) {
  using namespace ultra;
  return train::run_techniques(
      "03_parameter_server",
      "Trains replicas of a small Llama-style model whose weights are kept by parameter servers.",
      [] {
        return train::list_of(memory::technique(), collectives::technique(),
                              data_parallel::parameter_servers());
      },
      argc, argv, data_parallel::worker_with_servers);
}
