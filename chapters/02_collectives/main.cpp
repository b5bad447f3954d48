/// 02_collectives: trains on several ranks that hold the same model; or measures a collective on
/// them; or simulates one on a machine that is not here.

#include "chapters/01_memory/memory.hpp"
#include "chapters/02_collectives/collectives.hpp"
#include "common/train/cli/run_techniques.hpp"

int main(int argc, char** argv) {
  using namespace ultra;
  return train::run_techniques(
      "02_collectives", "Trains a small Llama-style model on ranks that each hold all of it.",
      [] { return train::list_of(memory::technique(), collectives::technique()); }, argc, argv);
}
